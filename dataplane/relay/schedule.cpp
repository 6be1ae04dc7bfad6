#include "dataplane/relay/schedule.hpp"

#include <algorithm>
#include <cassert>

namespace rdmc::relay {

Schedule::AnyPlan Schedule::plan_of(Algorithm algorithm, Rank rank, std::uint32_t members,
                                    const Racks& racks) {
  switch (algorithm) {
    case Algorithm::binomial_pipeline: break;
    case Algorithm::binomial_tree: return BinomialTree(rank, members);
    case Algorithm::chain: return Chain(rank, members);
    case Algorithm::sequential: return Sequential(rank, members);
    case Algorithm::hybrid:
      if (racks.is_known()) return Hybrid(rank, racks);
      break;
    case Algorithm::host_pipeline:
      if (racks.are_shared()) return HostPipeline(rank, racks);
      break;
    case Algorithm::host_trees:
      if (racks.are_shared()) return HostTrees(rank, racks);
      return TwoTrees(rank, members);
    case Algorithm::two_trees: return TwoTrees(rank, members);
    case Algorithm::site_trees: return TwoTrees(rank, members, racks);
    case Algorithm::circulant: return Circulant(rank, members);
  }
  return BinomialPipeline(rank, members);
}

Schedule::Schedule(Algorithm algorithm, Rank rank, std::uint32_t members, const Racks& racks)
    : rank_(value_of(rank)), members_(members), plan_(plan_of(algorithm, rank, members, racks)) {
  assert(members >= 1 && members <= kMaxMembers && rank_ < members);
  assert(!racks.is_known() || racks.members() == members);
}

std::uint64_t Schedule::steps(std::uint64_t blocks) const {
  assert(blocks >= 1 && blocks <= kMaxBlocks);
  return std::visit([&](const auto& plan) { return plan.steps(blocks); }, plan_);
}

StepTransfers Schedule::at(std::uint64_t step, std::uint64_t blocks) const {
  assert(step < steps(blocks));
  return std::visit([&](const auto& plan) { return plan.at(step, blocks); }, plan_);
}

std::optional<Transfer> Schedule::first_receive(std::uint64_t blocks) const {
  return std::visit([&](const auto& plan) { return plan.first_receive(blocks); }, plan_);
}

std::optional<Rank> Schedule::first_source_of(Rank member, std::uint64_t blocks) const {
  const auto first =
      std::visit([&](const auto& plan) { return plan.of(member).first_receive(blocks); }, plan_);
  if (!first) return std::nullopt;
  return first->peer;
}

std::vector<Rank> Schedule::sources() const {
  auto ranks = std::visit([](const auto& plan) { return plan.sources(); }, plan_);
  std::ranges::sort(ranks);
  return ranks;
}

std::vector<Rank> Schedule::destinations() const {
  auto ranks = std::visit([](const auto& plan) { return plan.destinations(); }, plan_);
  std::ranges::sort(ranks);
  return ranks;
}

std::vector<Rank> Schedule::neighbours() const {
  auto ranks = sources();
  std::ranges::copy(destinations(), std::back_inserter(ranks));
  sort_and_unite(ranks);
  return ranks;
}

std::optional<std::uint64_t> Schedule::next_receive_from(Rank source, std::uint64_t step,
                                                         std::uint64_t blocks) const {
  return std::visit([&](const auto& plan) { return plan.next_receive_from(source, step, blocks); }, plan_);
}

std::optional<std::uint64_t> Schedule::next_send(std::uint64_t step, std::uint64_t end,
                                                 std::uint64_t blocks) const {
  return std::visit([&](const auto& plan) { return plan.next_send(step, end, blocks); }, plan_);
}

Pace Schedule::pace() const {
  return std::visit([](const auto& plan) { return plan.pace(); }, plan_);
}

std::uint64_t Schedule::sent_by(std::uint64_t block, std::uint64_t blocks) const {
  if (block + 1 >= blocks) return steps(blocks);
  const Pace own = pace();
  return std::min(steps(blocks), block * own.stride + own.lag + 1);
}

std::uint64_t Schedule::minimum_slots() const {
  return std::visit([](const auto& plan) { return plan.minimum_slots(); }, plan_);
}

std::uint64_t most_hops(Algorithm algorithm, std::uint32_t members) {
  switch (algorithm) {
    case Algorithm::chain:
    case Algorithm::host_pipeline:
    case Algorithm::host_trees:
    case Algorithm::site_trees:
    case Algorithm::hybrid: return members;
    case Algorithm::sequential: return 1;
    case Algorithm::two_trees:
    case Algorithm::circulant:
    case Algorithm::binomial_pipeline:
    case Algorithm::binomial_tree: break;
  }
  return depth_of(members) + 1;
}

}  // namespace rdmc::relay
