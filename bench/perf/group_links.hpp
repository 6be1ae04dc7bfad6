// The peers of a member process in the form that groups need: by rank, over a link table.
#pragma once

#include <vector>

#include "bench/perf/member.hpp"
#include "lib/group/peers.hpp"

namespace rdmc::perf {

std::vector<group::PeerId> first_peers(std::uint32_t count);
/// Exchanges connection blobs with these neighbours, all members at the same time. Errors: those of Peers.
Result<void> connect(Member& member, group::Peers& peers, const std::vector<Rank>& neighbours);

}  // namespace rdmc::perf
