// Reads packets of the kernel's Soft-RoCE from the capture files in docs/interop.
#pragma once

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/bytes.hpp"

namespace rdmc::testing {

struct Captured {
  Address source, destination;
  std::uint16_t identification = 0;  ///< The IPv4 identification.
  std::vector<std::byte> frame;      ///< The bytes from the Ethernet header on.
  std::vector<std::byte> datagram;   ///< The bytes from the BTH to the ICRC.
};

/// Returns the packets of a pcap file with Ethernet frames. All of them must be UDP packets.
inline std::vector<Captured> read_capture(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> text((std::istreambuf_iterator<char>(file)), {});
  std::span<const std::byte> rest = std::as_bytes(std::span(text));
  BOOST_REQUIRE(rest.size() > 24u);
  rest = rest.subspan(24);
  std::vector<Captured> packets;
  while (rest.size() > 16) {
    const auto length = std::to_integer<std::size_t>(rest[8]) | std::to_integer<std::size_t>(rest[9]) << 8;
    const auto frame = rest.subspan(16, length), ip = frame.subspan(14);
    rest = rest.subspan(16 + length);
    Captured packet;
    packet.frame.assign(frame.begin(), frame.end());
    const bool ipv6 = std::to_integer<int>(ip[0]) >> 4 == 6;
    packet.source.ipv6 = packet.destination.ipv6 = ipv6;
    const std::size_t header = ipv6 ? 40 : 20, address = ipv6 ? 16 : 4, from = ipv6 ? 8 : 12;
    for (std::size_t i = 0; i < address; ++i) {
      packet.source.bytes[i] = std::to_integer<std::uint8_t>(ip[from + i]);
      packet.destination.bytes[i] = std::to_integer<std::uint8_t>(ip[from + address + i]);
    }
    if (!ipv6) packet.identification = load_be<std::uint16_t>(&ip[4]);
    const auto udp = ip.subspan(header);
    packet.source.port = load_be<std::uint16_t>(&udp[0]);
    packet.destination.port = load_be<std::uint16_t>(&udp[2]);
    const auto datagram = udp.subspan(8, load_be<std::uint16_t>(&udp[4]) - std::size_t{8});
    packet.datagram.assign(datagram.begin(), datagram.end());
    packets.push_back(std::move(packet));
  }
  return packets;
}

}  // namespace rdmc::testing
