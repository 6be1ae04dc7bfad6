#include "lib/group/ranking.hpp"

#include <algorithm>

namespace rdmc::group {

Result<RackOf> hosts_of(const std::vector<NodeId>& members, NodeId us, const Peers& peers) {
  std::map<std::uint64_t, std::uint32_t> racks;  // Indexed by host id.
  RackOf rack_of;
  for (const NodeId member : members) {
    const PeerId peer{value_of(member)};
    if (member != us && !peers.is_connected(peer))
      return fail(Errc::peer_failed,
                  "not connected to member " + std::to_string(value_of(member)) + ", whose host counts");
    const std::uint64_t host = member == us ? peers.own_host() : peers.host_of(peer).value_or(0);
    const auto next = static_cast<std::uint32_t>(rack_of.size());
    rack_of[member] = host == 0 ? next : racks.try_emplace(host, next).first->second;
  }
  return rack_of;
}

Result<Ranking> by_rank(std::vector<NodeId> members, NodeId root, NodeId us, const RackOf& rack_of) {
  const auto named = [](const char* what, NodeId node) {
    return fail(Errc::invalid_argument, std::string(what) + ": node " + std::to_string(value_of(node)));
  };
  if (members.empty()) return fail(Errc::invalid_argument, "a group without members");
  const auto found = std::ranges::find(members, root);
  if (found == members.end()) return named("the root is no member", root);
  if (std::ranges::find(members, us) == members.end()) return named("we are no member", us);
  std::rotate(members.begin(), found, found + 1);
  if (rack_of.empty()) return Ranking{.members = std::move(members), .racks = {}};

  std::vector<std::uint32_t> sizes;
  for (auto rack = members.begin(); rack != members.end();) {
    const std::uint32_t number = rack_of.at(*rack);
    const auto end = std::stable_partition(rack, members.end(),
                                           [&](NodeId member) { return rack_of.at(member) == number; });
    sizes.push_back(static_cast<std::uint32_t>(end - rack));
    rack = end;
  }
  auto racks = relay::Racks::of(sizes);
  if (!racks) return std::unexpected(racks.error());
  return Ranking{.members = std::move(members), .racks = std::move(*racks)};
}

}  // namespace rdmc::group
