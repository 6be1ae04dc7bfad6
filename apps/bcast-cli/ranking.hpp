// The order in which the members of an epoch get their ranks. Members of one rack get adjacent ranks. The
// hybrid algorithm needs this. All other algorithms then at least send most blocks inside racks. The sender
// and the survivors use the same functions, and so does the simulator. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/types.hpp"
#include "dataplane/relay/racks.hpp"

namespace rdmc::bcast {

/// The number of each member's rack, as far as it is known. All other members share one rack.
using RackOf = std::map<session::MemberId, std::uint32_t>;

struct Ranking {
  std::vector<session::MemberId> members;  ///< in the order of their ranks
  relay::Racks racks;                      ///< empty if no member's rack is known
};

/// members[0] is the epoch's source and gets rank 0. The others keep their order within a rack. Racks are in
/// the order of their first members.
Ranking rank_by_rack(std::span<const session::MemberId> members, const RackOf& racks);

/// Removes the stragglers from the candidates and returns them, if other candidates lack blocks, too. The
/// epoch then sends the blocks that those others lack, and the stragglers do not delay it. The blocks that
/// the stragglers still lack afterwards are sent when only stragglers lack blocks.
std::vector<session::MemberId> take_stragglers(std::vector<session::ParametersNeeded::Candidate>& lacking);

/// Appends the stragglers to `others` as the last rack, for the algorithm site_trees. In this algorithm a
/// rack gets its blocks only from the one or two members of the rack before it that have one destination
/// fewer than the others.
Ranking with_stragglers(Ranking others, std::span<const session::MemberId> stragglers);

/// The racks of an epoch's members, for the coordinator that plans the next epoch.
RackOf racks_of(std::span<const session::MemberInfo> members, const relay::Racks& racks);

}  // namespace rdmc::bcast
