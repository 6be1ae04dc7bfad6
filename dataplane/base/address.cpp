#include "dataplane/base/address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace rdmc {

std::string host_string(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.ipv6 ? AF_INET6 : AF_INET, address.bytes.data(), text, sizeof text);
  return text;
}

std::string to_string(const Address& address) {
  const std::string host = host_string(address);
  return (address.ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(address.port);
}

bool is_link_local(const Address& address) {
  return address.ipv6 && address.bytes[0] == 0xFE && (address.bytes[1] & 0xC0) == 0x80;
}

Result<Address> parse_address(std::string_view text, std::uint16_t default_port) {
  const auto bad = [&] {
    return fail(Errc::invalid_argument, "not a numeric address: '" + std::string(text) + "'");
  };
  if (text.contains('%'))
    return fail(Errc::invalid_argument, "an address with a zone: '" + std::string(text) + "'");
  std::string_view host = text;
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return bad();
    host = text.substr(1, end - 1);
    const auto rest = text.substr(end + 1);
    if (!rest.empty() && rest[0] != ':') return bad();
    if (!rest.empty()) has_port = true, port = rest.substr(1);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    const auto colon = text.find(':');
    host = text.substr(0, colon);
    has_port = true, port = text.substr(colon + 1);
  }
  Address address;
  address.port = default_port;
  const std::string host_text(host);
  address.ipv6 = host.contains(':');
  if (host.contains('\0') || (text.starts_with('[') && !address.ipv6)) return bad();
  if (inet_pton(address.ipv6 ? AF_INET6 : AF_INET, host_text.c_str(), address.bytes.data()) != 1)
    return bad();
  if (has_port) {
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (error != std::errc{} || end != port.data() + port.size())
      return fail(Errc::invalid_argument,
                  "'" + std::string(port) + "' is not a port, in '" + std::string(text) + "': 0 to 65535");
  }
  return address;
}

}  // namespace rdmc
