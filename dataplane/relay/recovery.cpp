#include "dataplane/relay/recovery.hpp"

#include <utility>

namespace rdmc::relay {
namespace {

BlockMap lacked(std::span<const Holder> holders) {
  BlockMap blocks(holders.front().held.blocks());
  for (const Holder& holder : holders)
    if (holder.lacks) blocks = blocks | holder.held.complement();
  return blocks;
}

}  // namespace

BlockMap lost_blocks(std::span<const Holder> holders) {
  BlockMap lost = lacked(holders);
  for (const Holder& holder : holders) lost = lost & holder.held.complement();
  return lost;
}

Round next_round(std::span<const Holder> holders) {
  const BlockMap lacking = lacked(holders);
  Round round{.source = 0, .blocks = BlockMap(lacking.blocks()), .receivers = {}};
  for (std::size_t i = 0; i < holders.size(); ++i) {
    auto useful = holders[i].held & lacking;
    if (useful.count() <= round.blocks.count()) continue;
    round.source = i;
    round.blocks = std::move(useful);
  }
  // An encoded map can hold fewer ranges than a map may have. A later round sends the other blocks.
  if (round.blocks.ranges().size() > BlockMap::kMaxRanges)
    round.blocks = round.blocks.complement().superset(BlockMap::kMaxRanges - 1).complement();
  for (std::size_t i = 0; i < holders.size(); ++i) {
    if (holders[i].lacks && (holders[i].held & round.blocks) != round.blocks) round.receivers.push_back(i);
  }
  return round;
}

std::vector<Round> plan_rounds(std::vector<Holder> holders) {
  std::vector<Round> rounds;
  for (auto round = next_round(holders); round.blocks.count() > 0; round = next_round(holders)) {
    for (const std::size_t receiver : round.receivers)
      holders[receiver].held = holders[receiver].held | round.blocks;
    rounds.push_back(std::move(round));
  }
  return rounds;
}

}  // namespace rdmc::relay
