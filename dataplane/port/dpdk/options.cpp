#include "dataplane/port/dpdk/options.hpp"

#include <charconv>

namespace rdmc::port::dpdk {
namespace {

constexpr std::uint32_t kLeastMtu = 576, kMostMtu = 65'535;

std::unexpected<Error> bad(std::string_view word, const char* why) {
  return fail(Errc::invalid_argument, "'" + std::string(word) + "': " + why);
}

std::optional<std::uint32_t> number(std::string_view text, std::uint32_t least, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most)
    return std::nullopt;
  return value;
}

Result<void> take_address(std::string_view word, std::string_view value, DpdkOptions& options) {
  const auto slash = value.find('/');
  auto address = parse_address(value.substr(0, slash), 0);
  if (!address || address->port != 0) return bad(word, "not an address like 10.0.0.1/24");
  if (slash != std::string_view::npos) {
    const auto bits = number(value.substr(slash + 1), 1, address->ipv6 ? 128 : 32);
    if (!bits) return bad(word, "not a prefix length");
    options.prefix_bits = static_cast<std::uint8_t>(*bits);
  }
  options.address = *address;
  return {};
}

Result<void> take(std::string_view word, DpdkOptions& options) {
  const auto equals = word.find('=');
  const std::string_view key = word.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
  if (key == "vdev" || key == "pci") {
    if (value.empty() || !options.device.empty()) return bad(word, "name one device");
    options.device = value;
    options.is_virtual = key == "vdev";
  } else if (key == "address") {
    return take_address(word, value, options);
  } else if (key == "gateway") {
    auto gateway = parse_address(value, 0);
    if (!gateway || gateway->port != 0) return bad(word, "not an address");
    options.gateway = *gateway;
  } else if (key == "mtu") {
    const auto mtu = number(value, kLeastMtu, kMostMtu);
    if (!mtu) return bad(word, "not an MTU between 576 and 65535");
    options.mtu = *mtu;
  } else if (key == "huge" && (value == "yes" || value == "no")) {
    options.hugepages = value == "yes";
  } else {
    return bad(word, "there are vdev=, pci=, address=ADDR/BITS, gateway=, mtu= and huge=yes|no");
  }
  return {};
}

}  // namespace

std::string_view DpdkOptions::device_name() const {
  return std::string_view(device).substr(0, device.find(','));
}

std::string_view DpdkOptions::driver_name() const {
  const std::string_view name = device_name();
  return is_virtual ? name.substr(0, name.find_last_not_of("0123456789") + 1) : name;
}

std::string_view DpdkOptions::device_argument(std::string_view key) const {
  std::string_view rest = device;
  for (auto comma = rest.find(','); comma != std::string_view::npos; comma = rest.find(',')) {
    rest = rest.substr(comma + 1);
    const std::string_view argument = rest.substr(0, rest.find(','));
    if (argument.starts_with(key) && argument.size() > key.size() && argument[key.size()] == '=')
      return argument.substr(key.size() + 1);
  }
  return {};
}

Result<DpdkOptions> parse_options(std::string_view text) {
  DpdkOptions options;
  while (!text.empty()) {
    const auto space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text = space == std::string_view::npos ? "" : text.substr(space + 1);
    if (word.empty()) continue;
    if (auto taken = take(word, options); !taken) return std::unexpected(taken.error());
  }
  if (options.device.empty())
    return fail(Errc::invalid_argument, "no DPDK device is named: vdev=NAME,ARGUMENTS or pci=ADDRESS");
  return options;
}

}  // namespace rdmc::port::dpdk
