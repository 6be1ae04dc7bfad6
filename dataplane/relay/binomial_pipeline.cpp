#include "dataplane/relay/binomial_pipeline.hpp"

#include "dataplane/relay/hypercube.hpp"

namespace rdmc::relay {

namespace {

std::optional<Transfer> transfer(std::uint32_t peer, std::optional<std::uint64_t> block) {
  if (!block) return std::nullopt;
  return Transfer{Rank{peer}, *block};
}

}  // namespace

StepTransfers BinomialPipeline::at(std::uint64_t step, std::uint64_t blocks) const {
  const Hypercube cube(members_, blocks);
  const std::uint32_t vertex = cube.vertex_of(rank_);
  const std::uint32_t other = cube.other(rank_);
  if (cube.is_final(step)) {
    if (blocks == 1) return only_block(step);
    if (other == rank_) return {};
    return {transfer(other, cube.last_from_outside(rank_)), transfer(other, cube.last_from_outside(other))};
  }
  const std::uint32_t across = cube.across(vertex, step);
  const auto to_outside = [&] { return transfer(cube.receiver(across, step), cube.outgoing(vertex, step)); };
  const auto from_outside = [&] { return transfer(cube.sender(across, step), cube.incoming(vertex, step)); };
  if (other == rank_) return {to_outside(), from_outside()};
  if (cube.receiver(vertex, step) == rank_)
    return {transfer(other, cube.handed(vertex, step)), from_outside()};
  return {to_outside(), transfer(other, cube.handed(vertex, step))};
}

/// Returns the transfers of this member in the last step of a message of one block. The two members of a
/// vertex could pass the block to each other in this step. But then some members would have another first
/// source than in a longer message. So every member that lacks the block receives it from the same source as
/// in a longer message.
StepTransfers BinomialPipeline::only_block(std::uint64_t step) const {
  const auto lacks_it = [&](Rank rank) {
    const BinomialPipeline member = of(rank);
    return !first_step(
        0, step, [&](std::uint64_t earlier) { return member.at(earlier, kMaxBlocks).receive.has_value(); });
  };
  StepTransfers now = at(step, kMaxBlocks);
  if (now.send) now.send = lacks_it(now.send->peer) ? transfer(value_of(now.send->peer), 0) : std::nullopt;
  if (now.receive)
    now.receive = lacks_it(Rank{rank_}) ? transfer(value_of(now.receive->peer), 0) : std::nullopt;
  return now;
}

std::optional<Transfer> BinomialPipeline::first_receive(std::uint64_t blocks) const {
  if (rank_ == 0) return std::nullopt;
  for (std::uint64_t step = 0;; ++step) {
    auto first = at(step, kMaxBlocks).receive;
    if (!first) continue;
    first->block = std::min(first->block, blocks - 1);
    return first;
  }
}

std::vector<Rank> BinomialPipeline::peers(bool of_sends, bool of_receives) const {
  std::vector<Rank> found;
  if (members_ == 1) return found;
  const Hypercube cube(members_, kMaxBlocks);
  if (cube.other(rank_) != rank_) found.push_back(Rank{cube.other(rank_)});
  for (std::uint64_t step = 0; step < cube.settled() + cube.period(); ++step) {
    const auto [send, receive] = at(step, kMaxBlocks);
    if (of_sends && send) found.push_back(send->peer);
    if (of_receives && receive) found.push_back(receive->peer);
  }
  sort_and_unite(found);
  return found;
}

std::optional<std::uint64_t> BinomialPipeline::next_receive_from(Rank source, std::uint64_t step,
                                                                 std::uint64_t blocks) const {
  if (rank_ == 0 || members_ == 1) return std::nullopt;
  const Hypercube cube(members_, blocks);
  if (!cube.are_neighbours(value_of(source), rank_)) return std::nullopt;
  const std::uint32_t difference = cube.vertex_of(value_of(source)) ^ cube.vertex_of(rank_);
  const bool is_twin = difference == 0;
  const std::uint64_t stride = is_twin ? 1 : cube.dimensions;
  const std::uint64_t end = std::min(cube.steps, std::max(step, cube.settled()) + cube.period());
  const auto receives = [&](std::uint64_t at_step) {
    const auto receive = at(at_step, blocks).receive;
    return receive && receive->peer == source;
  };
  if (!is_twin) step = next_congruent(step, static_cast<std::uint64_t>(std::countr_zero(difference)), stride);
  for (; step < end; step += stride) {
    if (receives(step)) return step;
  }
  if (is_twin && step < cube.steps && receives(cube.steps - 1)) return cube.steps - 1;
  return std::nullopt;
}

std::uint32_t BinomialPipeline::spare_sender(std::uint64_t block, std::uint64_t blocks) const {
  if (members_ == 1) return 0;
  const Hypercube cube(members_, blocks);
  if (cube.has_pairs() && blocks > 1 && block + 1 == blocks) return 0;
  return cube.receiver(cube.across(0, block), block);
}

}  // namespace rdmc::relay
