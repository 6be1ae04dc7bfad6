// The order in which the members of an epoch get their ranks. Members of one rack get adjacent ranks. The
// hybrid algorithm needs this order. With every other algorithm, the order has the effect that most blocks
// are sent inside racks. The sender, the survivors and the simulator use the same functions. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/types.hpp"
#include "dataplane/relay/racks.hpp"

namespace rdmc::bcast {

/// The number of each member's rack, as far as the rack is known. All members whose rack is not known share
/// one rack.
using RackOf = std::map<session::MemberId, std::uint32_t>;

struct Ranking {
  std::vector<session::MemberId> members;  ///< in the order of their ranks
  relay::Racks racks;                      ///< empty if no member's rack is known
};

/// Makes a ranking. members[0] is the epoch's source and gets rank 0. The other members keep their order
/// within a rack. Racks are in the order of their first members.
Ranking rank_by_rack(std::span<const session::MemberId> members, const RackOf& racks);

/// If candidates that are no stragglers lack blocks, too, removes the stragglers from the candidates and
/// returns them. The epoch then sends the blocks that the remaining candidates lack, and the stragglers do
/// not delay it. If stragglers still lack blocks afterwards, a later epoch sends these blocks, when only
/// stragglers lack blocks.
std::vector<session::MemberId> take_stragglers(std::vector<session::ParametersNeeded::Candidate>& lacking);

/// Appends the stragglers to `others` as the last rack, for the algorithm site_trees. With this algorithm, a
/// rack gets its blocks only from one or two members of the rack before it. These members have one
/// destination fewer than the others.
Ranking with_stragglers(Ranking others, std::span<const session::MemberId> stragglers);

/// Returns the racks of an epoch's members, for the coordinator that plans the next epoch.
RackOf racks_of(std::span<const session::MemberInfo> members, const relay::Racks& racks);

}  // namespace rdmc::bcast
