#include "dataplane/relay/hybrid.hpp"

#include <cassert>

namespace rdmc::relay {

namespace {

BinomialPipeline pipeline_of(const Rack& rack, std::uint32_t rank) {
  return {Rank{rank - rack.head}, rack.members};
}

Rank in_group(const Rack& rack, std::uint32_t inside) {
  return Rank{rack.head + inside};
}

/// Returns the member that passes `block` on from `rack` to the next rack.
Rank passer(const Rack& rack, std::uint64_t block, std::uint64_t blocks) {
  return in_group(rack, pipeline_of(rack, rack.head).spare_sender(block, blocks));
}

/// Returns the block that the head of `rack` receives in `step` from the rack before it.
std::optional<std::uint64_t> entering(const Rack& rack, std::uint64_t step, std::uint64_t blocks) {
  if (step + 1 < rack.start || step + 1 - rack.start >= blocks) return std::nullopt;
  return step + 1 - rack.start;
}

/// Returns all members that may pass a block on from `rack`, for any block count.
std::vector<Rank> passers(const Rack& rack) {
  std::vector<Rank> all;
  const std::uint64_t period = pipeline_of(rack, rack.head).spare_period();
  for (std::uint64_t block = 0; block < period; ++block) all.push_back(passer(rack, block, kMaxBlocks));
  // The member that passes on the last block of a message with more than one block.
  all.push_back(passer(rack, 1, 2));
  sort_and_unite(all);
  return all;
}

}  // namespace

Hybrid::Hybrid(Rank rank, Racks racks)
    : rank_(value_of(rank)),
      racks_(std::move(racks)),
      index_(racks_.index_of(rank_)),
      rack_(racks_.all()[index_]),
      inside_(pipeline_of(rack_, rank_)) {}

std::uint64_t Hybrid::steps(std::uint64_t blocks) const {
  if (racks_.members() == 1) return 0;
  std::uint64_t longest = 0;
  for (const Rack& rack : racks_.all()) longest = std::max(longest, rack.start + depth_of(rack.members));
  return blocks - 1 + longest;
}

StepTransfers Hybrid::at(std::uint64_t step, std::uint64_t blocks) const {
  StepTransfers now;
  if (step >= rack_.start && step - rack_.start < inside_.steps(blocks)) {
    now = inside_.at(step - rack_.start, blocks);
    for (auto* const transfer : {&now.send, &now.receive}) {
      if (*transfer) (*transfer)->peer = in_group(rack_, value_of((*transfer)->peer));
    }
  }
  if (const Rack* const before = is_head() ? rack_before() : nullptr) {
    if (const auto block = entering(rack_, step, blocks))
      now.receive = Transfer{passer(*before, *block, blocks), *block};
  }
  if (const Rack* const behind = rack_behind()) {
    const auto block = entering(*behind, step, blocks);
    if (block && passer(rack_, *block, blocks) == Rank{rank_}) {
      assert(!now.send);
      now.send = Transfer{Rank{behind->head}, *block};
    }
  }
  return now;
}

std::optional<Transfer> Hybrid::first_receive(std::uint64_t blocks) const {
  if (rank_ == 0) return std::nullopt;
  if (is_head()) return Transfer{passer(*rack_before(), 0, kMaxBlocks), 0};
  auto first = inside_.first_receive(blocks);
  first->peer = in_group(rack_, value_of(first->peer));
  return first;
}

std::vector<Rank> Hybrid::sources() const {
  if (is_head()) return rack_before() == nullptr ? std::vector<Rank>{} : passers(*rack_before());
  auto all = inside_.sources();
  for (Rank& rank : all) rank = in_group(rack_, value_of(rank));
  return all;
}

std::vector<Rank> Hybrid::destinations() const {
  auto all = inside_.destinations();
  for (Rank& rank : all) rank = in_group(rack_, value_of(rank));
  if (rack_behind() != nullptr && std::ranges::binary_search(passers(rack_), Rank{rank_}))
    all.push_back(Rank{rack_behind()->head});
  return all;
}

std::optional<std::uint64_t> Hybrid::next_receive_from(Rank source, std::uint64_t step,
                                                       std::uint64_t blocks) const {
  if (!is_head()) {
    if (value_of(source) < rack_.head || value_of(source) - rack_.head >= rack_.members) return std::nullopt;
    const std::uint64_t from = std::max(step, rack_.start) - rack_.start;
    auto inside = inside_.next_receive_from(Rank{value_of(source) - rack_.head}, from, blocks);
    if (inside) *inside += rack_.start;
    return inside;
  }
  const Rack* const before = rack_before();
  if (before == nullptr) return std::nullopt;
  const std::uint64_t entry = rack_.start - 1;
  const std::uint64_t block = std::max(step, entry) - entry;
  if (block >= blocks) return std::nullopt;
  const auto passes = [&](std::uint64_t b) { return passer(*before, b, blocks) == source; };
  auto next =
      first_step(block, std::min(blocks, block + pipeline_of(*before, before->head).spare_period()), passes);
  if (!next && passes(blocks - 1)) next = blocks - 1;
  if (next) *next += entry;
  return next;
}

std::uint64_t Hybrid::minimum_slots() const {
  std::uint64_t most = 1;
  const auto all = racks_.all();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint32_t members = all[i].members;
    const bool passes_on = i + 1 < all.size();
    // The member that passes a block on still holds this block when it receives the next one, so it needs
    // one more slot.
    const std::uint64_t spare = passes_on && members > 1 && std::has_single_bit(members) ? 1 : 0;
    most = std::max(most, BinomialPipeline(Rank{0}, members).minimum_slots() + spare);
    if (i > 0 && (passes_on || members > 1)) most = std::max(most, std::uint64_t{2});
  }
  return most;
}

}  // namespace rdmc::relay
