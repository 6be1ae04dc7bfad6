#include "lib/socket/records.hpp"

#include <cassert>
#include <cstring>

#include "dataplane/base/bytes.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::sockets {
namespace {

constexpr std::size_t kLimitBytes = 8, kGrantBytes = 16,
                      kAddressBytes = 19;  // The fields are: address family 1 byte (4 or 6), address 16, port
                                           // number 2.

std::size_t body_bytes(RecordKind kind, std::size_t data) {
  switch (kind) {
    case RecordKind::open:
    case RecordKind::open_messages: return kLimitBytes + 2 * kAddressBytes;
    case RecordKind::accepted:
    case RecordKind::lane:
    case RecordKind::credit: return kLimitBytes;
    case RecordKind::data: return data;
    case RecordKind::grant: return kGrantBytes;
    default: return 0;
  }
}

void store(const Address& address, std::byte* to) {
  to[0] = std::byte{address.ipv6 ? std::uint8_t{6} : std::uint8_t{4}};
  std::memcpy(to + 1, address.bytes.data(), address.bytes.size());
  store_be(to + 17, address.port);
}

bool load(const std::byte* from, Address& address) {
  const auto family = std::to_integer<int>(from[0]);
  if (family != 4 && family != 6) return false;
  address.ipv6 = family == 6;
  std::memcpy(address.bytes.data(), from + 1, address.bytes.size());
  address.port = load_be<std::uint16_t>(from + 17);
  return std::ranges::none_of(std::span(address.bytes).subspan(address.ip().size()),
                              [](std::uint8_t rest) { return rest != 0; });
}

bool has_limit(RecordKind kind) {
  return is_open(kind) || kind == RecordKind::accepted || kind == RecordKind::credit ||
         kind == RecordKind::lane;
}

}  // namespace

std::size_t encoded_bytes(const Record& record) {
  return kRecordHeadBytes + body_bytes(record.kind, record.bytes.size());
}

std::size_t encode(const Record& record, std::span<std::byte> out) {
  const std::size_t body = body_bytes(record.kind, record.bytes.size());
  assert(out.size() >= kRecordHeadBytes + body);
  std::byte* const head = out.data();
  std::memset(head, 0, 4);
  head[0] = static_cast<std::byte>(record.kind);
  store_be(head + 4, static_cast<std::uint32_t>(body));
  store_be(head + 8, value_of(record.connection));
  std::byte* const to = head + kRecordHeadBytes;
  if (has_limit(record.kind)) store_be(to, record.limit);
  if (is_open(record.kind)) {
    store(record.from, to + kLimitBytes);
    store(record.to, to + kLimitBytes + kAddressBytes);
  }
  if (record.kind == RecordKind::grant) {
    store_be(to, record.grant.slot);
    store_be(to + 4, record.grant.key);
    store_be(to + 8, record.grant.address);
  }
  if (record.kind == RecordKind::data) std::ranges::copy(record.bytes, to);
  return kRecordHeadBytes + body;
}

Result<Record> take_record(std::span<const std::byte>& records) {
  if (records.size() < kRecordHeadBytes) return fail(Errc::protocol_error, "a record that is cut off");
  const std::byte* const head = records.data();
  const auto kind = std::to_integer<std::uint8_t>(head[0]);
  const auto length = load_be<std::uint32_t>(head + 4);
  if (kind < value_of(RecordKind::open) || kind > value_of(RecordKind::grant))
    return fail(Errc::protocol_error, "a record of an unknown kind");
  if (head[1] != std::byte{} || head[2] != std::byte{} || head[3] != std::byte{})
    return fail(Errc::protocol_error, "a record with padding");
  if (length > records.size() - kRecordHeadBytes)
    return fail(Errc::protocol_error, "a record that is cut off");
  Record record{.kind = RecordKind{kind}, .connection = ConnectionId{load_be<std::uint64_t>(head + 8)}};
  if (length != body_bytes(record.kind, length))
    return fail(Errc::protocol_error, "a record of a wrong length");
  const std::byte* const from = head + kRecordHeadBytes;
  if (has_limit(record.kind)) record.limit = load_be<std::uint64_t>(from);
  if (is_open(record.kind) &&
      !(load(from + kLimitBytes, record.from) && load(from + kLimitBytes + kAddressBytes, record.to)))
    return fail(Errc::protocol_error, "a record with an impossible address");
  if (record.kind == RecordKind::grant)
    record.grant = {load_be<std::uint32_t>(from), load_be<std::uint32_t>(from + 4),
                    load_be<std::uint64_t>(from + 8)};
  if (record.kind == RecordKind::data) record.bytes = {from, length};
  records = records.subspan(kRecordHeadBytes + length);
  return record;
}

}  // namespace rdmc::sockets
