// In which order the members of an epoch take their ranks: those of one rack side by side, so that the
// hybrid algorithm can use the racks and all others at least send most blocks inside them. Sender and
// survivors decide by the same functions, the simulator too. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/types.hpp"
#include "dataplane/relay/racks.hpp"

namespace rdmc::bcast {

/// The number of each member's rack, as far as it is known. Those who are not named share one.
using RackOf = std::map<session::MemberId, std::uint32_t>;

struct Ranking {
  std::vector<session::MemberId> members;  ///< by rank
  relay::Racks racks;                      ///< not known when nobody's rack is
};

/// members[0] is the epoch's source; the others keep their order within a rack, and racks that of their first
/// members.
Ranking rank_by_rack(std::span<const session::MemberId> members, const RackOf& racks);

/// Takes the stragglers out of the candidates if others lack blocks, too. They hold up nobody in an epoch
/// that sends what the others lack; what they still lack then is sent when only they are left.
std::vector<session::MemberId> take_stragglers(std::vector<session::ParametersNeeded::Candidate>& lacking);

/// `others` with these behind them as a rack of their own, for the site trees: who sends to them has one
/// destination too few among the others.
Ranking with_stragglers(Ranking others, std::span<const session::MemberId> stragglers);

/// What an epoch's members tell of their racks, for those who plan the next one.
RackOf racks_of(std::span<const session::MemberInfo> members, const relay::Racks& racks);

}  // namespace rdmc::bcast
