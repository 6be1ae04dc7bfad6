#include "dataplane/roce/headers.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "dataplane/base/bytes.hpp"

namespace rdmc::roce {
namespace {

// The parts that follow the BTH, by opcode (IBTA vol. 1, table 38; docs/wire.md for the opcodes of rdmc).
enum Part : std::uint16_t {
  kKnown = 1,
  kHasReth = 2,
  kHasAeth = 4,
  kHasImmediate = 8,
  kHasXWrite = 16,
  kHasXAck = 32,
  kHasPayload = 64,
  kHasAtomic = 128,
  kHasAtomicAck = 256,
  kHasInvalidate = 512,
  kIsNotification = 1024
};

constexpr std::array<std::uint16_t, 256> make_layouts() {
  std::array<std::uint16_t, 256> layouts{};
  const auto set = [&](Opcode opcode, int parts) {
    layouts[static_cast<std::uint8_t>(opcode)] = static_cast<std::uint16_t>(parts | kKnown);
  };
  for (auto opcode : {Opcode::send_first, Opcode::send_middle, Opcode::send_last, Opcode::send_only,
                      Opcode::write_middle, Opcode::write_last})
    set(opcode, kHasPayload);
  for (auto opcode : {Opcode::send_last_immediate, Opcode::send_only_immediate, Opcode::write_last_immediate})
    set(opcode, kHasImmediate | kHasPayload);
  for (auto opcode : {Opcode::write_first, Opcode::write_only}) set(opcode, kHasReth | kHasPayload);
  set(Opcode::write_only_immediate, kHasReth | kHasImmediate | kHasPayload);
  set(Opcode::read_request, kHasReth);
  for (auto opcode : {Opcode::read_response_first, Opcode::read_response_last, Opcode::read_response_only})
    set(opcode, kHasAeth | kHasPayload);
  set(Opcode::read_response_middle, kHasPayload);
  set(Opcode::acknowledge, kHasAeth);
  set(Opcode::atomic_acknowledge, kHasAeth | kHasAtomicAck);
  for (auto opcode : {Opcode::compare_swap, Opcode::fetch_add}) set(opcode, kHasAtomic);
  for (auto opcode : {Opcode::send_last_invalidate, Opcode::send_only_invalidate})
    set(opcode, kHasInvalidate | kHasPayload);
  set(Opcode::congestion_notification, kIsNotification);
  for (auto opcode : {Opcode::x_write, Opcode::x_write_last, Opcode::x_write_last_immediate})
    set(opcode, kHasXWrite | kHasPayload);
  set(Opcode::x_acknowledge, kHasAeth | kHasXAck);
  return layouts;
}
constexpr auto kLayouts = make_layouts();

constexpr std::size_t fixed_header_bytes(std::uint16_t layout) {
  return kBthBytes + (layout & kHasReth ? kRethBytes : 0) + (layout & kHasAeth ? kAethBytes : 0) +
         (layout & kHasImmediate ? kImmediateBytes : 0) + (layout & kHasXWrite ? kXWriteBytes : 0) +
         (layout & kHasXAck ? kXAckFixedBytes : 0) + (layout & kHasAtomic ? kAtomicBytes : 0) +
         (layout & kHasAtomicAck ? kAtomicAckBytes : 0) + (layout & kHasInvalidate ? kInvalidateBytes : 0) +
         (layout & kIsNotification ? kNotificationBytes : 0);
}
static_assert(fixed_header_bytes(kLayouts[0xC0]) == kXWriteHeaderBytes);

constexpr auto kFixedHeaderBytes = [] {
  std::array<std::uint8_t, 256> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(fixed_header_bytes(kLayouts[i]));
  return bytes;
}();

Bth read_bth(const std::byte* from) {
  const auto flags = std::to_integer<std::uint8_t>(from[1]);
  const auto notifications = std::to_integer<std::uint8_t>(from[4]);
  return Bth{.opcode = static_cast<Opcode>(from[0]),
             .solicited = (flags & 0x80) != 0,
             .migration = (flags & 0x40) != 0,
             .ack_request = (std::to_integer<std::uint8_t>(from[8]) & 0x80) != 0,
             .fecn = (notifications & 0x80) != 0,
             .becn = (notifications & 0x40) != 0,
             .pad_bytes = static_cast<std::uint8_t>(flags >> 4 & 3),
             .partition_key = load_be<std::uint16_t>(from + 2),
             .destination = Qpn{load_be24(from + 5)},
             .psn = Psn(load_be24(from + 9))};
}

XWrite read_x_write(const std::byte* from) {
  return XWrite{.address = load_be<std::uint64_t>(from),
                .key = RemoteKey{load_be<std::uint32_t>(from + 8)},
                .immediate = load_be<std::uint32_t>(from + 12),
                .remaining = load_be<std::uint32_t>(from + 16),
                .identification = load_be<std::uint16_t>(from + 20),
                .begins_unordered = (load_be<std::uint16_t>(from + 22) & kBeginsUnordered) != 0};
}

// Reads the parts that only atomics and invalidation have. It is a cold function, so that it does not slow
// down all other packets.
[[gnu::cold, gnu::noinline]] void read_rare_parts(std::uint16_t layout, const std::byte* at, Packet& packet) {
  if (layout & kHasAtomic)
    packet.atomic = {.address = load_be<std::uint64_t>(at),
                     .key = RemoteKey{load_be<std::uint32_t>(at + 8)},
                     .swap_or_add = load_be<std::uint64_t>(at + 12),
                     .compare = load_be<std::uint64_t>(at + 20)};
  if (layout & kHasAtomicAck) packet.original = load_be<std::uint64_t>(at);
  if (layout & kHasInvalidate) packet.invalidated = RemoteKey{load_be<std::uint32_t>(at)};
}

// Returns true if `remaining` matches the packet. In the last part of a WRITE, `remaining` must be the size
// of that part's payload. In every other part it must be larger than the payload.
bool consistent(const XWrite& header, Opcode opcode, std::size_t payload_bytes) {
  return opcode == Opcode::x_write ? header.remaining > payload_bytes : header.remaining == payload_bytes;
}

// Fills in all of `packet` except the payload. Sets `payload_bytes` to the number of bytes between headers
// and pad. `header` holds the first bytes of the datagram. No other byte of the datagram may be read.
// `packet` is filled in place, because a Packet is larger than a cache line.
std::optional<ParseError> parse_headers(std::span<const std::byte> header, std::size_t datagram_bytes,
                                        Packet& packet, std::size_t& payload_bytes) noexcept {
  if (header.size() < kBthBytes || datagram_bytes < kBthBytes + kIcrcBytes) return ParseError::too_short;
  packet.bth = read_bth(header.data());
  if ((std::to_integer<std::uint8_t>(header[1]) & 0x0F) != 0) return ParseError::bad_version;
  const std::uint16_t layout = kLayouts[static_cast<std::uint8_t>(packet.bth.opcode)];
  if (layout == 0) return ParseError::unknown_opcode;
  // Limited members of the default partition are accepted too, because this side is a full member (IBTA
  // 10.9.3).
  if ((packet.bth.partition_key & 0x7FFF) != 0x7FFF) return ParseError::bad_partition;

  std::size_t header_bytes = kFixedHeaderBytes[static_cast<std::uint8_t>(packet.bth.opcode)];
  if (header.size() < header_bytes || datagram_bytes < header_bytes + kIcrcBytes)
    return ParseError::too_short;
  const std::byte* at = header.data() + kBthBytes;
  if (layout & kHasReth) {
    packet.reth = {.address = load_be<std::uint64_t>(at),
                   .key = RemoteKey{load_be<std::uint32_t>(at + 8)},
                   .length = load_be<std::uint32_t>(at + 12)};
    at += kRethBytes;
  }
  if (layout & kHasAeth) {
    packet.aeth = {.syndrome = std::to_integer<std::uint8_t>(at[0]), .msn = load_be24(at + 1)};
    at += kAethBytes;
  }
  if (layout & (kHasAtomic | kHasAtomicAck | kHasInvalidate)) read_rare_parts(layout, at, packet);
  if (layout & kHasImmediate) packet.immediate = load_be<std::uint32_t>(at);
  if (layout & kHasXWrite) {
    packet.x_write = read_x_write(at);
    packet.immediate = packet.x_write.immediate;
  }
  if (layout & kHasXAck) {
    packet.x_ack = {.newest = Psn(load_be24(at)),
                    .delay_ns = load_be<std::uint32_t>(at + 4),
                    .arrival_ns = load_be<std::uint32_t>(at + 8),
                    .words = std::to_integer<std::uint8_t>(at[3]),
                    .bitmap = at + kXAckFixedBytes};
    if (packet.x_ack.words > kMaxBitmapWords) return ParseError::bad_length;
    header_bytes += packet.x_ack.words * std::size_t{4};
    if (header.size() < header_bytes || datagram_bytes < header_bytes + kIcrcBytes)
      return ParseError::too_short;
  }
  packet.header_bytes = static_cast<std::uint8_t>(header_bytes);

  const std::size_t body = datagram_bytes - header_bytes - kIcrcBytes;
  if (body % 4 != 0) return ParseError::bad_length;
  if (packet.bth.pad_bytes > body) return ParseError::bad_pad;
  payload_bytes = body - packet.bth.pad_bytes;
  if (!(layout & kHasPayload) && payload_bytes != 0) return ParseError::bad_length;
  if ((layout & kHasXWrite) && !consistent(packet.x_write, packet.bth.opcode, payload_bytes))
    return ParseError::bad_length;
  return std::nullopt;
}

}  // namespace

std::string_view name(ParseError error) noexcept {
  switch (error) {
    case ParseError::too_short: return "too short";
    case ParseError::bad_version: return "bad transport version";
    case ParseError::unknown_opcode: return "unknown opcode";
    case ParseError::bad_length: return "bad length";
    case ParseError::bad_pad: return "bad pad count";
    case ParseError::bad_partition: return "bad partition key";
  }
  __builtin_unreachable();
}

std::expected<Packet, ParseError> parse_packet(std::span<const std::byte> datagram) noexcept {
  std::expected<Packet, ParseError> result;
  std::size_t payload_bytes = 0;
  if (const auto error = parse_headers(datagram, datagram.size(), *result, payload_bytes))
    result = std::unexpected(*error);
  else
    result->payload = datagram.subspan(result->header_bytes, payload_bytes);
  return result;
}

std::expected<Packet, ParseError> parse_scattered(std::span<const std::byte> header,
                                                  std::size_t datagram_bytes,
                                                  std::span<const std::byte> payload) noexcept {
  std::expected<Packet, ParseError> result;
  std::size_t payload_bytes = 0;
  if (const auto error = parse_headers(header, datagram_bytes, *result, payload_bytes))
    result = std::unexpected(*error);
  else if (result->bth.opcode == Opcode::x_acknowledge)
    result = std::unexpected(ParseError::unknown_opcode);
  else if (payload.size() < payload_bytes)
    result = std::unexpected(ParseError::bad_length);
  else
    result->payload = payload.first(payload_bytes);
  return result;
}

std::size_t write_bth(std::byte* out, const Bth& bth) noexcept {
  out[0] = static_cast<std::byte>(bth.opcode);
  out[1] = static_cast<std::byte>((bth.solicited ? 0x80 : 0) | (bth.migration ? 0x40 : 0) |
                                  (bth.pad_bytes & 3) << 4);
  store_be(out + 2, bth.partition_key);
  out[4] = static_cast<std::byte>((bth.fecn ? 0x80 : 0) | (bth.becn ? 0x40 : 0));
  store_be24(out + 5, value_of(bth.destination));
  out[8] = static_cast<std::byte>(bth.ack_request ? 0x80 : 0);
  store_be24(out + 9, bth.psn.value());
  return kBthBytes;
}

std::size_t write_reth(std::byte* out, const Reth& reth) noexcept {
  store_be(out, reth.address);
  store_be(out + 8, value_of(reth.key));
  store_be(out + 12, reth.length);
  return kRethBytes;
}

std::size_t write_aeth(std::byte* out, const Aeth& aeth) noexcept {
  out[0] = static_cast<std::byte>(aeth.syndrome);
  store_be24(out + 1, aeth.msn);
  return kAethBytes;
}

std::size_t write_immediate(std::byte* out, std::uint32_t immediate) noexcept {
  store_be(out, immediate);
  return kImmediateBytes;
}

std::size_t write_atomic(std::byte* out, const AtomicEth& atomic) noexcept {
  store_be(out, atomic.address);
  store_be(out + 8, value_of(atomic.key));
  store_be(out + 12, atomic.swap_or_add);
  store_be(out + 20, atomic.compare);
  return kAtomicBytes;
}

std::size_t write_original(std::byte* out, std::uint64_t original) noexcept {
  store_be(out, original);
  return kAtomicAckBytes;
}

std::size_t write_invalidated(std::byte* out, RemoteKey key) noexcept {
  store_be(out, value_of(key));
  return kInvalidateBytes;
}

std::size_t write_notification_bytes(std::byte* out) noexcept {
  std::fill_n(out, kNotificationBytes, std::byte{0});
  return kNotificationBytes;
}

std::size_t write_x_write(std::byte* out, const XWrite& header) noexcept {
  store_be(out, header.address);
  store_be(out + 8, value_of(header.key));
  store_be(out + 12, header.immediate);
  store_be(out + 16, header.remaining);
  store_be(out + 20, header.identification);
  store_be(out + 22, header.begins_unordered ? kBeginsUnordered : std::uint16_t{0});
  return kXWriteBytes;
}

std::size_t write_x_ack(std::byte* out, const XAck& header) noexcept {
  store_be24(out, header.newest.value());
  out[3] = static_cast<std::byte>(header.words);
  store_be(out + 4, header.delay_ns);
  store_be(out + 8, header.arrival_ns);
  return kXAckFixedBytes;
}

void set_identification(std::byte* header, std::uint16_t identification) noexcept {
  store_be(header + kBthBytes + 20, identification);
}

}  // namespace rdmc::roce
