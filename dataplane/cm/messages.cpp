#include "dataplane/cm/messages.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dataplane/base/address_kind.hpp"
#include "dataplane/base/bytes.hpp"
#include "dataplane/base/gid.hpp"

namespace rdmc::cm {
namespace {

// IBTA vol. 1, 13.4.3 and 16.7.1: base version, class, class version, and the method "ComMgtSend".
constexpr std::array<std::uint8_t, 4> kStart{1, 0x07, 2, 0x03};
constexpr std::size_t kTransactionAt = 8, kAttributeAt = 16, kHeaderBytes = 24;
constexpr std::uint16_t kRequest = 0x10, kMessageReceived = 0x11, kReject = 0x12, kReply = 0x13,
                        kReadyToUse = 0x14, kDisconnectRequest = 0x15, kDisconnectReply = 0x16;

constexpr std::uint32_t kPermissiveLid = 0xFFFF;  // Ethernet has no LIDs.
constexpr std::uint8_t kReliableConnection = 0;
/// 10 Gb/s (table 144). On Ethernet no endpoint uses this field, but the value 0 is not valid.
constexpr std::uint8_t kPathRate = 3;

/// Writes the 232 bytes after the header. The offsets are those of the specification's tables.
class Writer {
 public:
  explicit Writer(Mad& mad) : at_(mad.data() + kHeaderBytes) {}
  void u8(std::size_t offset, unsigned value) { at_[offset] = static_cast<std::byte>(value); }
  void u16(std::size_t offset, std::uint16_t value) { store_be(at_ + offset, value); }
  void u24(std::size_t offset, std::uint32_t value) { store_be24(at_ + offset, value); }
  void u64(std::size_t offset, std::uint64_t value) { store_be(at_ + offset, value); }
  void id(std::size_t offset, CommunicationId value) { store_be(at_ + offset, value_of(value)); }
  void ids(CommunicationId local, CommunicationId remote) {
    id(0, local);
    id(4, remote);
  }
  void gid(std::size_t offset, const Address& address) {
    std::ranges::transform(to_gid(address), at_ + offset, [](auto b) { return std::byte{b}; });
  }
  void bytes(std::size_t offset, std::span<const std::byte> bytes, std::size_t room) {
    std::ranges::copy(bytes.first(std::min(bytes.size(), room)), at_ + offset);
  }

 private:
  std::byte* at_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> mad) : at_(mad.data() + kHeaderBytes) {}
  std::uint8_t u8(std::size_t offset) const { return std::to_integer<std::uint8_t>(at_[offset]); }
  std::uint16_t u16(std::size_t offset) const { return load_be<std::uint16_t>(at_ + offset); }
  std::uint32_t u24(std::size_t offset) const { return load_be24(at_ + offset); }
  std::uint64_t u64(std::size_t offset) const { return load_be<std::uint64_t>(at_ + offset); }
  CommunicationId id(std::size_t offset) const {
    return CommunicationId{load_be<std::uint32_t>(at_ + offset)};
  }
  Address gid(std::size_t offset) const {
    Gid raw;
    std::memcpy(raw.data(), at_ + offset, raw.size());
    return from_gid(raw);
  }
  std::vector<std::byte> bytes(std::size_t offset, std::size_t count) const {
    return {at_ + offset, at_ + offset + count};
  }

 private:
  const std::byte* at_;
};

/// Returns the code of a path MTU, 1 … 5 (table 30).
unsigned mtu_code(std::uint32_t mtu) {
  return static_cast<unsigned>(std::countr_zero(mtu)) - 7;
}

std::uint16_t write(Writer to, const Request& request) {
  to.id(0, request.local);
  to.u64(8, request.service_id);
  to.u64(16, request.adapter_guid);
  to.u24(32, value_of(request.queue_pair.qpn));
  to.u8(35, request.queue_pair.responder_resources);
  to.u8(39, request.queue_pair.initiator_depth);
  to.u8(43, static_cast<unsigned>(request.response_timeout << 3 | kReliableConnection << 1));
  to.u24(44, request.queue_pair.starting_psn.value());
  to.u8(47, static_cast<unsigned>(request.response_timeout << 3 | (request.retry_count & 7)));
  to.u16(48, 0xFFFF);  // The default partition.
  to.u8(50, mtu_code(request.path_mtu) << 4 | (request.queue_pair.rnr_retry_count & 7U));
  to.u8(51, static_cast<unsigned>(request.cm_retries << 4));
  to.u16(52, kPermissiveLid);
  to.u16(54, kPermissiveLid);
  to.gid(56, request.local_address);
  to.gid(72, request.remote_address);
  to.u8(91, kPathRate);
  to.u8(92, request.traffic_class);
  to.u8(93, request.hop_limit);
  to.u8(95, static_cast<unsigned>(request.ack_timeout << 3));
  to.bytes(140, request.private_data, kRequestPrivateBytes);
  return kRequest;
}
std::uint16_t write(Writer to, const Reply& reply) {
  to.ids(reply.local, reply.remote);
  to.u24(12, value_of(reply.queue_pair.qpn));
  to.u24(20, reply.queue_pair.starting_psn.value());
  to.u8(24, reply.queue_pair.responder_resources);
  to.u8(25, reply.queue_pair.initiator_depth);
  to.u8(27, static_cast<unsigned>(reply.queue_pair.rnr_retry_count << 5));
  to.u64(28, reply.adapter_guid);
  to.bytes(36, reply.private_data, kReplyPrivateBytes);
  return kReply;
}
std::uint16_t write(Writer to, const Reject& reject) {
  to.ids(reject.local, reject.remote);
  to.u8(8, static_cast<unsigned>(static_cast<std::uint8_t>(reject.answered) << 6));
  to.u16(10, static_cast<std::uint16_t>(reject.reason));
  to.bytes(84, reject.private_data, kRejectPrivateBytes);
  return kReject;
}
std::uint16_t write(Writer to, const MessageReceived& received) {
  to.ids(received.local, received.remote);
  to.u8(8, static_cast<unsigned>(static_cast<std::uint8_t>(received.answered) << 6));
  to.u8(9, static_cast<unsigned>(received.service_timeout << 3));
  return kMessageReceived;
}
std::uint16_t write(Writer to, const ReadyToUse& ready) {
  to.ids(ready.local, ready.remote);
  return kReadyToUse;
}
std::uint16_t write(Writer to, const DisconnectRequest& request) {
  to.ids(request.local, request.remote);
  to.u24(8, value_of(request.remote_qpn));
  return kDisconnectRequest;
}
std::uint16_t write(Writer to, const DisconnectReply& reply) {
  to.ids(reply.local, reply.remote);
  return kDisconnectReply;
}

using Decoded = std::expected<Message, ParseError>;

Decoded read_request(const Reader& from, std::uint64_t transaction) {
  const unsigned mtu = from.u8(50) >> 4;
  Request request{.local = from.id(0),
                  .service_id = from.u64(8),
                  .adapter_guid = from.u64(16),
                  .queue_pair = {.qpn = Qpn{from.u24(32)},
                                 .starting_psn = Psn(from.u24(44)),
                                 .responder_resources = from.u8(35),
                                 .initiator_depth = from.u8(39),
                                 .rnr_retry_count = static_cast<std::uint8_t>(from.u8(50) & 7)},
                  .response_timeout = static_cast<std::uint8_t>(from.u8(43) >> 3),
                  .retry_count = static_cast<std::uint8_t>(from.u8(47) & 7),
                  .cm_retries = static_cast<std::uint8_t>(from.u8(51) >> 4),
                  .path_mtu = 128U << mtu,
                  .ack_timeout = static_cast<std::uint8_t>(from.u8(95) >> 3),
                  .local_address = from.gid(56),
                  .remote_address = from.gid(72),
                  .hop_limit = from.u8(93),
                  .traffic_class = from.u8(92),
                  .private_data = from.bytes(140, kRequestPrivateBytes)};
  const bool sound = value_of(request.queue_pair.qpn) >= 2 && mtu >= 1 && mtu <= 5 &&
                     (from.u8(43) >> 1 & 3) == kReliableConnection &&
                     is_host_address(request.local_address) && is_host_address(request.remote_address) &&
                     request.local_address.ipv6 == request.remote_address.ipv6;
  if (!sound) return std::unexpected(ParseError::bad_field);
  return Message{transaction, std::move(request)};
}

Decoded read_reply(const Reader& from, std::uint64_t transaction) {
  Reply reply{.local = from.id(0),
              .remote = from.id(4),
              .adapter_guid = from.u64(28),
              .queue_pair = {.qpn = Qpn{from.u24(12)},
                             .starting_psn = Psn(from.u24(20)),
                             .responder_resources = from.u8(24),
                             .initiator_depth = from.u8(25),
                             .rnr_retry_count = static_cast<std::uint8_t>(from.u8(27) >> 5)},
              .private_data = from.bytes(36, kReplyPrivateBytes)};
  if (value_of(reply.queue_pair.qpn) < 2) return std::unexpected(ParseError::bad_field);
  return Message{transaction, std::move(reply)};
}

}  // namespace

std::string_view name(ParseError error) noexcept {
  switch (error) {
    case ParseError::too_short: return "too short";
    case ParseError::not_connection_management: return "not of connection management";
    case ParseError::unknown_message: return "unknown message";
    case ParseError::bad_field: return "a field out of range";
  }
  return "unknown";
}

Mad encode(const Message& message) {
  Mad mad{};
  std::ranges::transform(kStart, mad.begin(), [](std::uint8_t byte) { return std::byte{byte}; });
  store_be(mad.data() + kTransactionAt, message.transaction);
  const std::uint16_t attribute =
      std::visit([&mad](const auto& body) { return write(Writer(mad), body); }, message.body);
  store_be(mad.data() + kAttributeAt, attribute);
  return mad;
}

std::expected<Message, ParseError> decode(std::span<const std::byte> mad) {
  if (mad.size() < kMadBytes) return std::unexpected(ParseError::too_short);
  const bool ours = std::ranges::equal(mad.first(kStart.size()), kStart, {},
                                       [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
  if (!ours) return std::unexpected(ParseError::not_connection_management);
  const auto transaction = load_be<std::uint64_t>(mad.data() + kTransactionAt);
  const Reader from(mad);
  const CommunicationId local = from.id(0), remote = from.id(4);
  const auto answered = static_cast<Answered>(from.u8(8) >> 6);
  switch (load_be<std::uint16_t>(mad.data() + kAttributeAt)) {
    case kRequest: return read_request(from, transaction);
    case kReply: return read_reply(from, transaction);
    case kReject:
      return Message{transaction, Reject{local, remote, answered, static_cast<RejectReason>(from.u16(10)),
                                         from.bytes(84, kRejectPrivateBytes)}};
    case kMessageReceived:
      return Message{transaction,
                     MessageReceived{local, remote, answered, static_cast<std::uint8_t>(from.u8(9) >> 3)}};
    case kReadyToUse: return Message{transaction, ReadyToUse{local, remote}};
    case kDisconnectRequest: return Message{transaction, DisconnectRequest{local, remote, Qpn{from.u24(8)}}};
    case kDisconnectReply: return Message{transaction, DisconnectReply{local, remote}};
    default: return std::unexpected(ParseError::unknown_message);
  }
}

std::array<std::byte, kIpHeaderBytes> encode(const IpHeader& header) {
  std::array<std::byte, kIpHeaderBytes> bytes{};
  bytes[1] = header.source.ipv6 ? std::byte{0x60} : std::byte{0x40};
  store_be(bytes.data() + 2, header.source.port);
  // IPv4 addresses are in the last four bytes of their fields.
  const auto put = [&](std::size_t end, const Address& address) {
    const auto ip = address.ip();
    std::memcpy(bytes.data() + end - ip.size(), ip.data(), ip.size());
  };
  put(20, header.source);
  put(36, header.destination);
  return bytes;
}

std::optional<IpHeader> decode_ip_header(std::span<const std::byte> private_data) {
  if (private_data.size() < kIpHeaderBytes || private_data[0] != std::byte{0}) return std::nullopt;
  const auto version = std::to_integer<unsigned>(private_data[1]) >> 4;
  if (version != 4 && version != 6) return std::nullopt;
  const auto take = [&](std::size_t end) {
    Address address{.ipv6 = version == 6};
    const std::size_t size = address.ip().size();
    std::memcpy(address.bytes.data(), private_data.data() + end - size, size);
    return address;
  };
  IpHeader header{take(20), take(36)};
  header.source.port = load_be<std::uint16_t>(private_data.data() + 2);
  return header;
}

}  // namespace rdmc::cm
