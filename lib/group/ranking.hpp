// A group's members by rank, which every member works out alike: the root first, each rack's members
// together, everything else in the order in which the application names them.
#pragma once

#include <map>
#include <vector>

#include "dataplane/relay/racks.hpp"
#include "lib/group/peers.hpp"
#include "lib/include/rdmc/group.hpp"

namespace rdmc::group {

/// In which rack each member lies; empty: nothing is known.
using RackOf = std::map<NodeId, std::uint32_t>;

/// The hosts that members share, as racks of theirs. All who are connected to all know it alike. Errors:
/// peer_failed (not connected to one of them).
Result<RackOf> hosts_of(const std::vector<NodeId>& members, NodeId us, const Peers& peers);

struct Ranking {
  std::vector<NodeId> members;
  relay::Racks racks;
};

/// Errors: invalid_argument (a group without members, a root or ourselves that is no member), those of
/// relay::Racks::of. `rack_of` is empty or knows every member.
Result<Ranking> by_rank(std::vector<NodeId> members, NodeId root, NodeId us, const RackOf& rack_of);

}  // namespace rdmc::group
