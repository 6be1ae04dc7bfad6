// Ethernet frames as bytes: reading what concerns a RoCE port (UDP, ARP, neighbour discovery) and writing it.
// Pure functions; nothing is allocated and nothing kept. A frame is read in place: what is returned are
// offsets into it. The kernel does this for the udp driver; a DPDK port has nobody below it.
//
// UDP checksums are not written (0, as RoCE NICs send it) and not checked: the ICRC is stronger, and on a
// virtual link a neighbouring kernel leaves them half computed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "dataplane/base/address.hpp"

namespace rdmc::port::dpdk {

using MacAddress = std::array<std::uint8_t, 6>;
inline constexpr MacAddress kBroadcast{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};

inline constexpr std::size_t kEthernetBytes = 14, kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8;
/// The largest headers before a UDP payload: Ethernet, IPv6, UDP.
inline constexpr std::size_t kMostHeaderBytes = kEthernetBytes + kIpv6Bytes + kUdpBytes;
/// The largest frame that write_neighbour makes: Ethernet, IPv6, a solicitation with one option.
inline constexpr std::size_t kMostNeighbourBytes = kEthernetBytes + kIpv6Bytes + 32;

/// A UDP datagram in a frame.
struct UdpFrame {
  Address source, destination;
  std::size_t payload_offset = 0;
  std::size_t payload_bytes = 0;
  std::uint16_t identification = 0;  ///< of the IPv4 header; 0 for IPv6
  bool congestion_experienced = false;
};

/// An ARP packet (RFC 826) or a neighbour solicitation or advertisement (RFC 4861, 4.3 and 4.4): one meaning,
/// two formats. Addresses without ports.
struct NeighbourMessage {
  enum class Kind : std::uint8_t { request, reply };
  Kind kind = Kind::request;
  Address sender;  ///< whose MAC is told; all zero in a request that only looks for duplicates
  MacAddress sender_mac{};
  Address target;            ///< request: whose MAC is wanted; reply: to whom it is told
  MacAddress target_mac{};   ///< where the frame is sent: broadcast or a group's for a first request
  bool solicited = false;    ///< reply: it answers a request
  bool may_replace = false;  ///< reply: what was known before is to be forgotten; ARP knows no other way
};

enum class Unusable : std::uint8_t {
  truncated,        ///< a header promises more bytes than there are
  other_protocol,   ///< not UDP, ARP or neighbour discovery: none of ours
  fragment,         ///< of an IP packet: RoCE never fragments
  options,          ///< IPv4 options or IPv6 extension headers: the ICRC knows none
  bad_checksum,     ///< of the IPv4 header or ICMPv6
  wrong_hop_limit,  ///< neighbour discovery that was forwarded, so not from a neighbour (RFC 4861, 7.1)
};

using Frame = std::variant<UdpFrame, NeighbourMessage, Unusable>;

/// Reads a frame (without the Ethernet checksum). Bytes behind the IP packet are padding.
Frame read_frame(std::span<const std::byte> frame);

/// What the datagrams from one UDP port to another have in common, as read from one of them and found again
/// in the next: most of what arrives comes from where the last did, and need not be taken apart anew. IPv4
/// only, where there is a checksum; other frames match nothing.
class UdpPattern {
 public:
  UdpPattern() = default;
  /// `frame`: one that read_frame takes for a datagram.
  explicit UdpPattern(std::span<const std::byte> frame);

  /// The payload's bytes if `frame` differs from that one in lengths and identification alone, and
  /// read_frame would take it too. It begins where that one's did.
  std::optional<std::size_t> match(std::span<const std::byte> frame) const;

 private:
  std::uint32_t type_and_class_ = 0;  // 0: matches nothing
  std::uint32_t lifetime_and_protocol_ = 0, ports_ = 0;
  std::uint64_t addresses_ = 0;
  std::uint32_t checksum_ = 0;  // of the IP header: the sum of all that does not change
};

/// What all datagrams from one UDP port to one destination have in common, ready to be copied.
class UdpHeaders {
 public:
  /// `traffic_class`: its two lower bits, of ECN, are 0.
  UdpHeaders(const MacAddress& from_mac, const MacAddress& to_mac, const Address& from, const Address& to,
             std::uint8_t traffic_class = 0);

  std::size_t bytes() const { return bytes_; }
  /// Writes bytes() bytes at `to`, for a payload that fits an IP packet. Not fragmented, identification 0.
  void write(std::byte* to, std::size_t payload_bytes, bool ecn_capable) const;

 private:
  std::array<std::byte, kMostHeaderBytes> template_{};
  std::size_t bytes_;
  std::uint8_t traffic_class_;
  std::uint32_t checksum_ = 0;  // of the IPv4 header: the sum of all that does not change
};

/// Writes a whole frame; returns its bytes. `to` has room for kMostNeighbourBytes.
std::size_t write_neighbour(const NeighbourMessage& message, std::span<std::byte> to);

/// The Internet checksum (RFC 1071) of `bytes` as it is stored, network order read as an integer. `sum` is
/// what comes before, unfolded.
std::uint16_t internet_checksum(std::span<const std::byte> bytes, std::uint32_t sum = 0);

/// Where IPv6 listens for solicitations of `address`: ff02::1:ffXX:XXXX (RFC 4291, 2.7.1).
Address solicited_node_group(const Address& address);
/// The Ethernet address of an IPv6 multicast group (RFC 2464, 7).
MacAddress group_mac(const Address& group);

}  // namespace rdmc::port::dpdk
