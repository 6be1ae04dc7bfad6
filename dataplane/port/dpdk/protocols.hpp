// The numbers of the protocols that frames.hpp reads and writes. Reading and writing use the same numbers.
// Each group names the document that defines its values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rdmc::port::dpdk {

// EtherType (IEEE 802 Numbers).
inline constexpr std::uint16_t kTypeIpv4 = 0x0800, kTypeIpv6 = 0x86DD, kTypeArp = 0x0806;

// ARP (RFC 826).
inline constexpr std::size_t kArpBytes = 28;
inline constexpr std::uint16_t kArpEthernet = 1, kArpRequest = 1, kArpReply = 2;

// IP protocol numbers (IANA).
inline constexpr std::uint8_t kUdp = 17, kIcmpv6 = 58;
inline constexpr std::byte kFragmentHeader{44};

// IPv4 flags and fragment offset (RFC 791). A packet is a fragment if a bit of the mask is set. The other
// value is the flag that forbids fragmentation.
inline constexpr std::uint16_t kFragmentMask = 0x3FFF, kDontFragment = 0x4000;

// Neighbour discovery (RFC 4861, 4.3, 4.4, 4.6.1).
inline constexpr std::byte kSolicitation{135}, kAdvertisement{136};
inline constexpr std::byte kSourceOption{1}, kTargetOption{2};
inline constexpr std::byte kSolicited{0x40}, kOverride{0x20};
inline constexpr std::byte kNeighbourHopLimit{255};
inline constexpr std::size_t kDiscoveryBytes = 24;  ///< The length of a message without options.

/// The time to live of all packets that are sent. This is the usual value. A packet with the value 1, which
/// ibv_*_pingpong uses, would not pass a router.
inline constexpr std::byte kHopLimit{64};

/// The code point ECT(0) (RFC 3168), in the two low bits of the traffic class.
inline constexpr std::uint8_t kEcnCapable = 2;

}  // namespace rdmc::port::dpdk
