#include "apps/bcast-cli/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "dataplane/base/address_kind.hpp"

namespace rdmc::bcast {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    found.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return found;
}

Result<std::string> no_further_file(const std::string& path) {
  return fail(Errc::invalid_argument, fmt::format("a topology cannot name a further file ('{}')", path));
}

/// Returns the host of an address. All loopback addresses are treated as one host.
Address host_of(Address address) {
  address.port = 0;
  return is_loopback(address) ? Address::ipv4(127, 0, 0, 1, 0) : address;
}

Address subnet_of(const Address& address) {
  Address subnet = host_of(address);
  const std::size_t prefix = subnet.ipv6 ? 8 : 3;
  std::fill(subnet.bytes.begin() + static_cast<std::ptrdiff_t>(prefix), subnet.bytes.end(), std::uint8_t{0});
  return subnet;
}

/// Returns an order of the members in which members with equal keys are adjacent.
template <typename KeyOf>
relay::RankOrder order_by(std::span<const std::pair<session::MemberId, Address>> members, KeyOf key_of) {
  std::map<Address, std::uint32_t> numbers;
  std::vector<std::uint32_t> labels;
  for (const auto& [member, address] : members)
    labels.push_back(
        numbers.emplace(key_of(address), static_cast<std::uint32_t>(numbers.size())).first->second);
  return relay::order_by_rack(labels);
}

}  // namespace

Result<Topology> Topology::parse(std::string_view text, const std::string& origin) {
  Topology topology;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const auto where = fmt::format("{} line {}", origin, number);
    if (auto done = topology.take_line(line.substr(0, line.find('#')), where, number); !done)
      return std::unexpected(done.error());
  }
  if (topology.racks_.empty()) return fail(Errc::invalid_argument, fmt::format("{} names no rack", origin));
  return topology;
}

Result<void> Topology::take_line(std::string_view line, const std::string& where, std::size_t number) {
  const auto parts = words(line);
  if (parts.empty()) return {};
  if (parts.size() == 1)
    return fail(Errc::invalid_argument, fmt::format("{}: rack '{}' has no host", where, parts[0]));
  std::string list;
  for (const auto part : std::span(parts).subspan(1)) list += (list.empty() ? "" : ",") + std::string(part);
  auto hosts = control::expand_hostlist(list, {}, no_further_file);
  if (!hosts) return fail(hosts.error().code, fmt::format("{}: {}", where, hosts.error().what));
  const auto rack =
      racks_.emplace(std::string(parts[0]), static_cast<std::uint32_t>(racks_.size())).first->second;
  for (const auto& host : *hosts) {
    const Entry entry{rack, number};
    const Entry& known = host.port == control::kDefaultPort ? hosts_.emplace(host.name, entry).first->second
                                                            : agents_.emplace(host, entry).first->second;
    if (known.rack != rack)
      return fail(Errc::invalid_argument, fmt::format("{}: {} is in another rack already (line {})", where,
                                                      to_string(host), known.line));
  }
  return {};
}

std::optional<std::uint32_t> Topology::rack_of(const control::Host& host) const {
  if (const auto agent = agents_.find(host); agent != agents_.end()) return agent->second.rack;
  if (const auto whole = hosts_.find(host.name); whole != hosts_.end()) return whole->second.rack;
  return std::nullopt;
}

Ranking rank_by_address(std::span<const std::pair<session::MemberId, Address>> members) {
  std::vector<std::pair<session::MemberId, Address>> by_host;
  for (const std::size_t i : order_by(members, host_of).order) by_host.push_back(members[i]);
  auto by_subnet = order_by(by_host, subnet_of);
  Ranking ranking{.members = {}, .racks = std::move(by_subnet.racks)};
  for (const std::size_t i : by_subnet.order) ranking.members.push_back(by_host[i].first);
  return ranking;
}

Ranking rank_by_host(std::span<const std::pair<session::MemberId, Address>> members) {
  auto by_host = order_by(members, host_of);
  Ranking ranking{.members = {}, .racks = std::move(by_host.racks)};
  for (const std::size_t i : by_host.order) ranking.members.push_back(members[i].first);
  return ranking;
}

}  // namespace rdmc::bcast
