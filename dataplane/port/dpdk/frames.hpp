// Reads and writes Ethernet frames as bytes: UDP, ARP and neighbour discovery. A RoCE port needs no other
// frames. The functions are pure; they allocate nothing and keep nothing. A frame is read in place, and the
// results are offsets into the frame. For the udp driver, the kernel does this work; a DPDK port must do it
// itself.
//
// UDP checksums are written as 0, as RoCE NICs do, and are not checked, because the ICRC is stronger. Also,
// on a virtual link, a neighbouring kernel may send UDP checksums that are only half computed.
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
  std::uint16_t identification = 0;  ///< From the IPv4 header; 0 for IPv6.
  bool congestion_experienced = false;
};

/// An ARP packet (RFC 826), or a neighbour solicitation or advertisement (RFC 4861, 4.3 and 4.4). Both
/// protocols give the same information. The addresses have no port numbers.
struct NeighbourMessage {
  enum class Kind : std::uint8_t { request, reply };
  Kind kind = Kind::request;
  /// The address that belongs to the sender's MAC address. It is all zeros in a request that only looks for
  /// duplicate addresses.
  Address sender;
  MacAddress sender_mac{};
  /// In a request, the address whose MAC address is wanted. In a reply, the address that the reply is for.
  Address target;
  /// The destination of the frame. In a first request, this is the broadcast address, or the Ethernet address
  /// of a multicast group.
  MacAddress target_mac{};
  bool solicited = false;  ///< In a reply: true if it answers a request.
  /// In a reply: true if it replaces a MAC address that was known before. Always true for ARP.
  bool may_replace = false;
};

enum class Unusable : std::uint8_t {
  truncated,       ///< The length in a header is greater than the number of bytes in the frame.
  other_protocol,  ///< Neither UDP nor ARP nor neighbour discovery.
  fragment,        ///< A fragment of an IP packet. RoCE never fragments.
  options,         ///< IPv4 options or IPv6 extension headers, which the ICRC does not support.
  bad_checksum,    ///< The checksum of the IPv4 header or of ICMPv6 is wrong.
  /// Neighbour discovery that was forwarded and therefore does not come from a neighbour (RFC 4861, 7.1).
  wrong_hop_limit,
};

using Frame = std::variant<UdpFrame, NeighbourMessage, Unusable>;

/// Reads a frame (without the Ethernet checksum). Bytes after the IP packet are padding.
Frame read_frame(std::span<const std::byte> frame);

/// The bytes that all datagrams from one UDP port to another have in common. They are taken from one frame
/// and compared with the next frame. Most frames come from the same source as the frame before, and such
/// frames need not be parsed again. Only IPv4 is supported, because the header of IPv6 has no checksum. A
/// pattern of any other frame never matches.
class UdpPattern {
 public:
  UdpPattern() = default;
  /// Precondition: read_frame accepts `frame` as a datagram.
  explicit UdpPattern(std::span<const std::byte> frame);

  /// Returns the number of payload bytes if `frame` differs from the constructor's frame only in lengths and
  /// identification, and if read_frame would accept `frame` too. The payload starts at the same offset as in
  /// the constructor's frame.
  std::optional<std::size_t> match(std::span<const std::byte> frame) const;

 private:
  std::uint32_t type_and_class_ = 0;  // If it is 0, the pattern matches nothing.
  std::uint32_t lifetime_and_protocol_ = 0, ports_ = 0;
  std::uint64_t addresses_ = 0;
  std::uint32_t checksum_ = 0;  // The sum of all fields of the IP header that do not change.
};

/// The headers that all datagrams from one UDP port to one destination have in common, ready to be copied.
class UdpHeaders {
 public:
  /// Precondition: the two lower bits of `traffic_class` (ECN) are 0.
  UdpHeaders(const MacAddress& from_mac, const MacAddress& to_mac, const Address& from, const Address& to,
             std::uint8_t traffic_class = 0);

  std::size_t bytes() const { return bytes_; }
  /// Writes bytes() bytes at `to`. The payload must fit an IP packet. The headers forbid fragmentation (IPv4
  /// DF flag), and the identification is 0.
  void write(std::byte* to, std::size_t payload_bytes, bool ecn_capable) const;

 private:
  std::array<std::byte, kMostHeaderBytes> template_{};
  std::size_t bytes_;
  std::uint8_t traffic_class_;
  std::uint32_t checksum_ = 0;  // The sum of all fields of the IPv4 header that do not change.
};

/// Writes a whole frame and returns its length. `to` must have at least kMostNeighbourBytes.
std::size_t write_neighbour(const NeighbourMessage& message, std::span<std::byte> to);

/// Returns the Internet checksum (RFC 1071) of `bytes`. The two bytes in network order are returned as an
/// integer. `sum` is the sum of earlier bytes, before the carries are folded.
std::uint16_t internet_checksum(std::span<const std::byte> bytes, std::uint32_t sum = 0);

/// Returns the multicast group where IPv6 receives solicitations of `address`: ff02::1:ffXX:XXXX (RFC 4291,
/// 2.7.1).
Address solicited_node_group(const Address& address);
/// Returns the Ethernet address of an IPv6 multicast group (RFC 2464, 7).
MacAddress group_mac(const Address& group);

}  // namespace rdmc::port::dpdk
