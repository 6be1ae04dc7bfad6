// Reads frames.
#include <algorithm>

#include "dataplane/base/bytes.hpp"
#include "dataplane/port/dpdk/frames.hpp"
#include "dataplane/port/dpdk/protocols.hpp"

namespace rdmc::port::dpdk {
namespace {

Address ip_at(const std::byte* from, bool ipv6) {
  Address address{.ipv6 = ipv6};
  std::memcpy(address.bytes.data(), from, ipv6 ? 16 : 4);
  return address;
}

MacAddress mac_at(const std::byte* from) {
  MacAddress mac;
  std::memcpy(mac.data(), from, mac.size());
  return mac;
}

Frame read_arp(std::span<const std::byte> arp) {
  if (arp.size() < kArpBytes) return Unusable::truncated;
  if (load_be<std::uint16_t>(&arp[0]) != kArpEthernet || load_be<std::uint16_t>(&arp[2]) != kTypeIpv4 ||
      arp[4] != std::byte{6} || arp[5] != std::byte{4})
    return Unusable::other_protocol;
  const auto operation = load_be<std::uint16_t>(&arp[6]);
  if (operation != kArpRequest && operation != kArpReply) return Unusable::other_protocol;
  return NeighbourMessage{
      .kind = operation == kArpRequest ? NeighbourMessage::Kind::request : NeighbourMessage::Kind::reply,
      .sender = ip_at(&arp[14], false),
      .sender_mac = mac_at(&arp[8]),
      .target = ip_at(&arp[24], false),
      .target_mac = mac_at(&arp[18]),
      .solicited = operation == kArpReply,
      .may_replace = true};
}

// Returns the address in the link-layer address option of a solicitation (type 1) or advertisement (type 2),
// or null if there is no such option.
const std::byte* link_layer_option(std::span<const std::byte> options, std::byte type) {
  while (options.size() >= 8) {
    const std::size_t bytes = std::to_integer<std::size_t>(options[1]) * 8;
    if (bytes == 0 || bytes > options.size()) return nullptr;
    if (options[0] == type) return &options[2];
    options = options.subspan(bytes);
  }
  return nullptr;
}

Frame read_neighbour_discovery(std::span<const std::byte> ip, std::span<const std::byte> message,
                               const MacAddress& frame_source) {
  if (message.size() < kDiscoveryBytes) return Unusable::truncated;
  const bool request = message[0] == kSolicitation;
  if ((!request && message[0] != kAdvertisement) || message[1] != std::byte{0})
    return Unusable::other_protocol;
  if (ip[7] != kNeighbourHopLimit) return Unusable::wrong_hop_limit;
  const std::uint32_t pseudo_header = kIcmpv6 + static_cast<std::uint32_t>(message.size());
  if (internet_checksum(ip.subspan(8, 32),
                        pseudo_header + static_cast<std::uint16_t>(~internet_checksum(message))) != 0)
    return Unusable::bad_checksum;
  const std::byte* const option =
      link_layer_option(message.subspan(kDiscoveryBytes), request ? kSourceOption : kTargetOption);
  return NeighbourMessage{.kind = request ? NeighbourMessage::Kind::request : NeighbourMessage::Kind::reply,
                          .sender = request ? ip_at(&ip[8], true) : ip_at(&message[8], true),
                          .sender_mac = option != nullptr ? mac_at(option) : frame_source,
                          .target = request ? ip_at(&message[8], true) : ip_at(&ip[24], true),
                          .target_mac = {},
                          .solicited = !request && (message[4] & kSolicited) != std::byte{0},
                          .may_replace = !request && (message[4] & kOverride) != std::byte{0}};
}

// Reads the rest of a UDP datagram. `found` already contains the addresses and the ECN mark. `ip_bytes` is
// the length of the IP header.
Frame read_udp(std::span<const std::byte> packet, std::size_t ip_bytes, UdpFrame& found) {
  const auto udp = packet.subspan(ip_bytes);
  if (udp.size() < kUdpBytes) return Unusable::truncated;
  const std::size_t length = load_be<std::uint16_t>(&udp[4]);
  if (length < kUdpBytes || length > udp.size()) return Unusable::truncated;
  found.source.port = load_be<std::uint16_t>(&udp[0]);
  found.destination.port = load_be<std::uint16_t>(&udp[2]);
  found.payload_offset = kEthernetBytes + ip_bytes + kUdpBytes;
  found.payload_bytes = length - kUdpBytes;
  return found;
}

bool marked(std::uint32_t traffic_class) {
  return (traffic_class & 3) == 3;
}

Frame read_ipv4(std::span<const std::byte> packet) {
  if (packet.size() < kIpv4Bytes) return Unusable::truncated;
  if (packet[0] != std::byte{0x45})
    return packet[0] >> 4 == std::byte{4} ? Unusable::options : Unusable::other_protocol;
  const std::size_t length = load_be<std::uint16_t>(&packet[2]);
  if (length < kIpv4Bytes || length > packet.size()) return Unusable::truncated;
  if (internet_checksum(packet.first(kIpv4Bytes)) != 0) return Unusable::bad_checksum;
  if ((load_be<std::uint16_t>(&packet[6]) & kFragmentMask) != 0) return Unusable::fragment;
  if (packet[9] != std::byte{kUdp}) return Unusable::other_protocol;
  UdpFrame found{.source = ip_at(&packet[12], false),
                 .destination = ip_at(&packet[16], false),
                 .identification = load_be<std::uint16_t>(&packet[4]),
                 .congestion_experienced = marked(std::to_integer<std::uint32_t>(packet[1]))};
  return read_udp(packet.first(length), kIpv4Bytes, found);
}

bool is_extension(std::byte next_header) {
  return next_header == std::byte{0} || next_header == std::byte{43} || next_header == std::byte{60};
}

Frame read_ipv6(std::span<const std::byte> packet, const MacAddress& frame_source) {
  if (packet.size() < kIpv6Bytes) return Unusable::truncated;
  if (packet[0] >> 4 != std::byte{6}) return Unusable::other_protocol;
  const std::size_t length = kIpv6Bytes + load_be<std::uint16_t>(&packet[4]);
  if (length > packet.size()) return Unusable::truncated;
  packet = packet.first(length);
  if (packet[6] == std::byte{kIcmpv6})
    return read_neighbour_discovery(packet.first(kIpv6Bytes), packet.subspan(kIpv6Bytes), frame_source);
  if (packet[6] == kFragmentHeader) return Unusable::fragment;
  if (is_extension(packet[6])) return Unusable::options;
  if (packet[6] != std::byte{kUdp}) return Unusable::other_protocol;
  UdpFrame found{.source = ip_at(&packet[8], true),
                 .destination = ip_at(&packet[24], true),
                 .congestion_experienced = marked(load_be<std::uint32_t>(&packet[0]) >> 20)};
  return read_udp(packet, kIpv6Bytes, found);
}

}  // namespace

Frame read_frame(std::span<const std::byte> frame) {
  if (frame.size() < kEthernetBytes) return Unusable::truncated;
  const auto packet = frame.subspan(kEthernetBytes);
  switch (load_be<std::uint16_t>(&frame[12])) {
    case kTypeIpv4: return read_ipv4(packet);
    case kTypeIpv6: return read_ipv6(packet, mac_at(&frame[6]));
    case kTypeArp: return read_arp(packet);
    default: return Unusable::other_protocol;
  }
}

namespace {

// Offsets into a frame with an IPv4 header.
constexpr std::size_t kTypeAt = 12, kLengthAt = 16, kIdentificationAt = 18, kFlagsAt = 20, kChecksumAt = 24,
                      kAddressesAt = 26, kPortsAt = 34, kUdpLengthAt = 38,
                      kPayloadAt = kEthernetBytes + kIpv4Bytes + kUdpBytes;

}  // namespace

UdpPattern::UdpPattern(std::span<const std::byte> frame) {
  if (frame.size() < kPayloadAt || load_be<std::uint16_t>(&frame[kTypeAt]) != kTypeIpv4) return;
  type_and_class_ = load_be<std::uint32_t>(&frame[kTypeAt]);
  lifetime_and_protocol_ = load_be<std::uint32_t>(&frame[kFlagsAt]);
  addresses_ = load_be<std::uint64_t>(&frame[kAddressesAt]);
  ports_ = load_be<std::uint32_t>(&frame[kPortsAt]);
  for (const std::uint64_t part :
       {std::uint64_t{type_and_class_ & 0xFFFF}, std::uint64_t{lifetime_and_protocol_}, addresses_ >> 32,
        addresses_ & 0xFFFF'FFFF})
    checksum_ += static_cast<std::uint32_t>((part >> 16) + (part & 0xFFFF));
}

std::optional<std::size_t> UdpPattern::match(std::span<const std::byte> frame) const {
  if (type_and_class_ == 0 || frame.size() < kPayloadAt ||
      load_be<std::uint32_t>(&frame[kTypeAt]) != type_and_class_ ||
      load_be<std::uint32_t>(&frame[kFlagsAt]) != lifetime_and_protocol_ ||
      load_be<std::uint64_t>(&frame[kAddressesAt]) != addresses_ ||
      load_be<std::uint32_t>(&frame[kPortsAt]) != ports_)
    return std::nullopt;
  const std::uint32_t length = load_be<std::uint16_t>(&frame[kLengthAt]);
  const std::uint32_t udp_length = load_be<std::uint16_t>(&frame[kUdpLengthAt]);
  const std::uint32_t sum = checksum_ + length + load_be<std::uint16_t>(&frame[kIdentificationAt]) +
                            load_be<std::uint16_t>(&frame[kChecksumAt]);
  if (internet_checksum({}, sum) != 0 || udp_length < kUdpBytes || length < kIpv4Bytes + udp_length ||
      kEthernetBytes + length > frame.size())
    return std::nullopt;
  return udp_length - kUdpBytes;
}

std::uint16_t internet_checksum(std::span<const std::byte> bytes, std::uint32_t sum) {
  for (; bytes.size() >= 2; bytes = bytes.subspan(2)) sum += load_be<std::uint16_t>(bytes.data());
  if (!bytes.empty()) sum += std::to_integer<std::uint32_t>(bytes[0]) << 8;
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace rdmc::port::dpdk
