#include "apps/bcast-cli/succession.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rdmc::bcast {
namespace {

/// A state that makes no sense holds nothing.
BlockMap held_by(const session::ParametersNeeded::Candidate& candidate, std::uint64_t blocks) {
  return BlockMap::decode(candidate.state, blocks).value_or(BlockMap(blocks));
}

}  // namespace

Result<SuccessorEpoch> plan_succession(const session::ParametersNeeded& needed, std::uint64_t blocks) {
  BlockMap lacking(blocks), available(blocks);
  for (const auto& candidate : needed.candidates) {
    const auto held = held_by(candidate, blocks);
    available = available | held;
    if (candidate.lacks) lacking = lacking | held.complement();
  }
  if (lacking.count() == 0) lacking.insert(0);  // who holds everything has not said that it is whole
  const auto lost = lacking & available.complement();
  if (lost.count() > 0) {
    return fail(Errc::peer_failed, fmt::format("the sender died and nobody alive holds {} of the {} blocks",
                                               lost.count(), blocks));
  }
  SuccessorEpoch epoch{.blocks = BlockMap(blocks)};
  for (const auto& candidate : needed.candidates) {
    auto useful = held_by(candidate, blocks) & lacking;
    if (useful.count() <= epoch.blocks.count()) continue;
    epoch.source = candidate.member;
    epoch.blocks = std::move(useful);
  }
  // Fewer ranges fit into a message than a map may have: the rest is for a later epoch.
  if (epoch.blocks.ranges().size() > BlockMap::kMaxRanges)
    epoch.blocks = epoch.blocks.complement().superset(BlockMap::kMaxRanges - 1).complement();
  epoch.members.push_back(epoch.source);
  for (const auto& candidate : needed.candidates)
    if (candidate.lacks && candidate.member != epoch.source) epoch.members.push_back(candidate.member);
  return epoch;
}

}  // namespace rdmc::bcast
