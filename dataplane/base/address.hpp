// A UDP or TCP endpoint: an IPv4 or IPv6 address and a port number. It is a plain value with a total order,
// so it can be the key of a map. It can be converted to text and back. The ICRC covers the bytes of the
// addresses of a packet.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dataplane/base/error.hpp"

namespace rdmc {

/// The UDP port number of RoCEv2 (IBTA annex A17).
inline constexpr std::uint16_t kRocePort = 4791;

struct Address {
  bool ipv6 = false;
  /// The address in network order. An IPv4 address uses the first four bytes, and the other bytes are zero.
  std::array<std::uint8_t, 16> bytes{};
  std::uint16_t port = 0;  ///< in host order

  friend auto operator<=>(const Address&, const Address&) = default;

  static constexpr Address ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d,
                                std::uint16_t port) {
    return Address{false, {a, b, c, d}, port};
  }
  std::span<const std::uint8_t> ip() const { return {bytes.data(), ipv6 ? std::size_t{16} : std::size_t{4}}; }
};

/// The address and the port number, for example "10.0.0.5:7700" or "[2001:db8::1]:7700".
std::string to_string(const Address& address);
/// The address without the port number and without brackets.
std::string host_string(const Address& address);

/// True for an IPv6 link-local address (fe80::/10). Such an address is valid only together with a network
/// interface, which an Address does not hold.
bool is_link_local(const Address& address);

/// Parses a numeric "ADDR[:PORT]": an IPv4 address, "[V6]:PORT", or an IPv6 address without a port number.
/// Without a port number in `text`, the port number is `default_port`. Names are not resolved here. A zone
/// ("%eth0") is refused: it is valid on one host only, and addresses are passed on to other hosts. Errors:
/// invalid_argument; the error message contains `text`.
Result<Address> parse_address(std::string_view text, std::uint16_t default_port);

}  // namespace rdmc
