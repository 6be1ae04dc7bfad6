// A UDP or TCP endpoint: an IPv4 or IPv6 address and a port. A plain value with a total order, so that it can
// be a key, printed, parsed, and fed to the ICRC, which covers the addresses byte by byte.
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

struct Address {
  bool ipv6 = false;
  std::array<std::uint8_t, 16> bytes{};  ///< network order; IPv4 uses the first four, the rest stay zero
  std::uint16_t port = 0;                ///< host order

  friend auto operator<=>(const Address&, const Address&) = default;

  static constexpr Address ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d,
                                std::uint16_t port) {
    return Address{false, {a, b, c, d}, port};
  }
  std::span<const std::uint8_t> ip() const { return {bytes.data(), ipv6 ? std::size_t{16} : std::size_t{4}}; }
};

/// "10.0.0.5:7700" or "[2001:db8::1]:7700".
std::string to_string(const Address& address);
/// The same without the port, and without brackets.
std::string host_string(const Address& address);

/// fe80::/10: means nothing without the interface that its link hangs on, which an Address does not hold.
bool is_link_local(const Address& address);

/// Parses a numeric "ADDR[:PORT]" ("[V6]:PORT" or bare V6 without a port). Names are not resolved here, and a
/// zone ("%eth0") is refused: it holds on one host only, and addresses are passed on. Errors:
/// invalid_argument, naming the text.
Result<Address> parse_address(std::string_view text, std::uint16_t default_port);

}  // namespace rdmc
