// The peers of a member process in the form that groups need: a link table, in which the peers are found by
// rank.
#pragma once

#include <vector>

#include "bench/perf/member.hpp"
#include "lib/group/peers.hpp"

namespace rdmc::perf {

std::vector<group::PeerId> first_peers(std::uint32_t count);
/// Exchanges connection blobs with these neighbours. All members do this at the same time. Errors: those of
/// Peers.
Result<void> connect(Member& member, group::Peers& peers, const std::vector<Rank>& neighbours);

}  // namespace rdmc::perf
