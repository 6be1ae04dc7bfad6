#include "apps/bcast-cli/recovery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dataplane/relay/recovery.hpp"

namespace rdmc::bcast {
namespace {

/// Returns the blocks that a candidate has. A state that cannot be decoded counts as no blocks.
BlockMap held_by(const session::ParametersNeeded::Candidate& candidate, std::uint64_t blocks) {
  return BlockMap::decode(candidate.state, blocks).value_or(BlockMap(blocks));
}

}  // namespace

Result<RecoveryEpoch> plan_recovery(const session::ParametersNeeded& needed, std::uint64_t blocks) {
  std::vector<relay::Holder> holders;
  for (const auto& candidate : needed.candidates)
    holders.push_back({.held = held_by(candidate, blocks), .lacks = candidate.lacks});
  if (const auto lost = relay::lost_blocks(holders); lost.count() > 0) {
    return fail(Errc::peer_failed, fmt::format("the sender died and nobody alive holds {} of the {} blocks",
                                               lost.count(), blocks));
  }
  auto round = relay::next_round(holders);
  // No block is missing, but some member has all blocks and has not reported its digest yet. One block is
  // sent again, because an epoch must send at least one.
  if (round.blocks.count() == 0) {
    const auto holds = [](const relay::Holder& holder) { return holder.held.contains(0); };
    const auto source = std::ranges::find_if(holders, holds);
    if (source == holders.end()) return fail(Errc::peer_failed, "the sender died and nobody holds anything");
    round.source = static_cast<std::size_t>(source - holders.begin());
    round.blocks.insert(0);
  }
  RecoveryEpoch epoch{
      .source = needed.candidates[round.source].member, .blocks = std::move(round.blocks), .members = {}};
  epoch.members.push_back(epoch.source);
  for (const auto& candidate : needed.candidates)
    if (candidate.lacks && candidate.member != epoch.source) epoch.members.push_back(candidate.member);
  return epoch;
}

}  // namespace rdmc::bcast
