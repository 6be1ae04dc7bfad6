// Writes frames.
#include <algorithm>
#include <cassert>

#include "dataplane/base/bytes.hpp"
#include "dataplane/port/dpdk/frames.hpp"
#include "dataplane/port/dpdk/protocols.hpp"

namespace rdmc::port::dpdk {
namespace {

std::byte* put_mac(std::byte* to, const MacAddress& mac) {
  std::memcpy(to, mac.data(), mac.size());
  return to + mac.size();
}

std::byte* put_ip(std::byte* to, const Address& address) {
  std::memcpy(to, address.ip().data(), address.ip().size());
  return to + address.ip().size();
}

std::byte* put_ethernet(std::byte* to, const MacAddress& from_mac, const MacAddress& to_mac,
                        std::uint16_t type) {
  to = put_mac(to, to_mac);
  to = put_mac(to, from_mac);
  store_be(to, type);
  return to + 2;
}

void put_ipv6(std::byte* to, std::size_t payload_bytes, std::uint8_t protocol, std::byte hop_limit,
              const Address& from, const Address& destination) {
  store_be(to, std::uint32_t{0x6000'0000});
  store_be(to + 4, static_cast<std::uint16_t>(payload_bytes));
  to[6] = std::byte{protocol};
  to[7] = hop_limit;
  put_ip(put_ip(to + 8, from), destination);
}

std::size_t write_arp(const NeighbourMessage& message, std::byte* to) {
  const bool request = message.kind == NeighbourMessage::Kind::request;
  std::byte* arp = put_ethernet(to, message.sender_mac, message.target_mac, kTypeArp);
  store_be(arp, kArpEthernet);
  store_be(arp + 2, kTypeIpv4);
  arp[4] = std::byte{6};
  arp[5] = std::byte{4};
  store_be(arp + 6, request ? kArpRequest : kArpReply);
  arp = put_ip(put_mac(arp + 8, message.sender_mac), message.sender);
  put_ip(put_mac(arp, request ? MacAddress{} : message.target_mac), message.target);
  return kEthernetBytes + kArpBytes;
}

// Writes a message of neighbour discovery. A request is sent to `target` itself, or to the multicast group of
// `target` if the message has a group as its Ethernet destination.
std::size_t write_discovery(const NeighbourMessage& message, std::byte* to) {
  const bool request = message.kind == NeighbourMessage::Kind::request;
  const bool by_group = (message.target_mac[0] & 1) != 0;
  Address destination = message.target;
  if (request && by_group) destination = solicited_node_group(message.target);
  const std::size_t bytes = kDiscoveryBytes + 8;
  std::byte* const ip = put_ethernet(to, message.sender_mac, message.target_mac, kTypeIpv6);
  put_ipv6(ip, bytes, kIcmpv6, kNeighbourHopLimit, message.sender, destination);
  std::byte* const discovery = ip + kIpv6Bytes;
  std::memset(discovery, 0, bytes);
  discovery[0] = request ? kSolicitation : kAdvertisement;
  if (!request && message.solicited) discovery[4] |= kSolicited;
  if (!request && message.may_replace) discovery[4] |= kOverride;
  put_ip(discovery + 8, request ? message.target : message.sender);
  discovery[kDiscoveryBytes] = request ? kSourceOption : kTargetOption;
  discovery[kDiscoveryBytes + 1] = std::byte{1};  // The length in units of 8 bytes.
  put_mac(discovery + kDiscoveryBytes + 2, message.sender_mac);
  const std::span message_bytes(discovery, bytes);
  const std::uint32_t sum = kIcmpv6 + static_cast<std::uint32_t>(bytes) +
                            static_cast<std::uint16_t>(~internet_checksum(message_bytes));
  store_be(discovery + 2, internet_checksum({ip + 8, 32}, sum));
  return kEthernetBytes + kIpv6Bytes + bytes;
}

}  // namespace

UdpHeaders::UdpHeaders(const MacAddress& from_mac, const MacAddress& to_mac, const Address& from,
                       const Address& to, std::uint8_t traffic_class)
    : bytes_(kEthernetBytes + (from.ipv6 ? kIpv6Bytes : kIpv4Bytes) + kUdpBytes),
      traffic_class_(traffic_class) {
  assert(from.ipv6 == to.ipv6);
  std::byte* const ip = put_ethernet(template_.data(), from_mac, to_mac, from.ipv6 ? kTypeIpv6 : kTypeIpv4);
  std::byte* const udp = template_.data() + bytes_ - kUdpBytes;
  store_be(udp, from.port);
  store_be(udp + 2, to.port);
  if (from.ipv6) {
    put_ipv6(ip, 0, kUdp, kHopLimit, from, to);
    return;
  }
  ip[0] = std::byte{0x45};
  store_be(ip + 6, kDontFragment);
  ip[8] = kHopLimit;
  ip[9] = std::byte{kUdp};
  put_ip(put_ip(ip + 12, from), to);
  checksum_ = static_cast<std::uint16_t>(~internet_checksum({ip, kIpv4Bytes}));
}

void UdpHeaders::write(std::byte* to, std::size_t payload_bytes, bool ecn_capable) const {
  std::memcpy(to, template_.data(), bytes_);
  const auto udp_bytes = static_cast<std::uint16_t>(kUdpBytes + payload_bytes);
  const auto traffic_class = static_cast<std::uint8_t>(traffic_class_ | (ecn_capable ? kEcnCapable : 0));
  std::byte* const ip = to + kEthernetBytes;
  store_be(to + bytes_ - 4, udp_bytes);
  if (bytes_ == kMostHeaderBytes) {
    store_be(ip, std::uint32_t{0x6000'0000} | static_cast<std::uint32_t>(traffic_class) << 20);
    store_be(ip + 4, udp_bytes);
    return;
  }
  const auto total = static_cast<std::uint16_t>(kIpv4Bytes + udp_bytes);
  ip[1] = std::byte{traffic_class};
  store_be(ip + 2, total);
  store_be(ip + 10, internet_checksum({}, checksum_ + traffic_class + total));
}

std::size_t write_neighbour(const NeighbourMessage& message, std::span<std::byte> to) {
  assert(to.size() >= kMostNeighbourBytes);
  return message.sender.ipv6 ? write_discovery(message, to.data()) : write_arp(message, to.data());
}

Address solicited_node_group(const Address& address) {
  Address group{.ipv6 = true, .bytes = {0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF}};
  std::copy(address.bytes.begin() + 13, address.bytes.end(), group.bytes.begin() + 13);
  return group;
}

MacAddress group_mac(const Address& group) {
  return {0x33, 0x33, group.bytes[12], group.bytes[13], group.bytes[14], group.bytes[15]};
}

}  // namespace rdmc::port::dpdk
