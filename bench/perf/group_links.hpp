// The peers of a member process as groups know them: by rank, over a table of links.
#pragma once

#include <vector>

#include "bench/perf/member.hpp"
#include "lib/group/peers.hpp"

namespace rdmc::perf {

std::vector<group::PeerId> first_peers(std::uint32_t count);
/// Exchanges blobs with these, all members at the same time. Errors: those of Peers.
Result<void> connect(Member& member, group::Peers& peers, const std::vector<Rank>& neighbours);

}  // namespace rdmc::perf
