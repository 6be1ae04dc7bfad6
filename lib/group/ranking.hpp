// The ranks of a group's members. Every member computes the same ranks. The root comes first, and the members
// of each rack are together. Apart from this, the members are in the order in which the application names
// them.
#pragma once

#include <map>
#include <vector>

#include "dataplane/relay/racks.hpp"
#include "lib/group/peers.hpp"
#include "lib/include/rdmc/group.hpp"

namespace rdmc::group {

/// The rack of each member. Empty if no rack is known.
using RackOf = std::map<NodeId, std::uint32_t>;

/// Returns the host of each member as its rack. All nodes that are connected to all members get the same
/// result. Errors: peer_failed if a member is not connected.
Result<RackOf> hosts_of(const std::vector<NodeId>& members, NodeId us, const Peers& peers);

struct Ranking {
  std::vector<NodeId> members;
  relay::Racks racks;
};

/// Computes the ranks. `rack_of` must be empty or contain every member. Errors: invalid_argument if there are
/// no members, or if the root or this node (`us`) is no member; those of relay::Racks::of.
Result<Ranking> by_rank(std::vector<NodeId> members, NodeId root, NodeId us, const RackOf& rack_of);

}  // namespace rdmc::group
