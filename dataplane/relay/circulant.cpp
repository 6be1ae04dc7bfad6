#include "dataplane/relay/circulant.hpp"

namespace rdmc::relay {

namespace {

constexpr std::size_t kMostSkips = static_cast<std::size_t>(depth_of(kMaxMembers)) + 1;

/// The number of a block for each step of a phase. The blocks that leave the root in this phase have the
/// numbers 0, 1, 2 and so on. The blocks of the previous phase have negative numbers.
using Blocks = std::array<std::int8_t, kMostSkips>;

/// The skips of a group. Every rank except 0 is a sum of different skips, which are found by subtracting the
/// largest skip that fits, again and again. The number of the smallest skip in the sum is the member's base
/// block. Of the blocks that leave the root in a phase, the member receives exactly one in the same phase:
/// its base block. Precondition: members >= 2.
struct Graph {
  explicit Graph(std::uint32_t member_count)
      : members(member_count), depth(static_cast<std::size_t>(depth_of(member_count))) {}

  /// Skip number `depth` is `members`. Each other skip is half of the next skip, rounded up. Skip number 0
  /// is 1.
  std::uint32_t skip(std::size_t number) const { return ((members - 1) >> (depth - number)) + 1; }

  std::uint32_t source(std::uint32_t rank, std::size_t step) const {
    return (rank + members - skip(step)) % members;
  }
  std::uint32_t destination(std::uint32_t rank, std::size_t step) const {
    return (rank + skip(step)) % members;
  }
  /// Returns the base block of a member, or `depth` for the root.
  std::size_t base_block(std::uint32_t rank) const {
    for (std::size_t number = depth; rank != 0 && number-- > 0;) {
      if (skip(number) <= rank) rank -= skip(number);
      if (rank == 0) return number;
    }
    return depth;
  }
  /// Returns the (negative) number of the base block `block` of the previous phase.
  std::int8_t earlier(std::size_t block) const {
    return static_cast<std::int8_t>(static_cast<int>(block) - static_cast<int>(depth));
  }

  std::uint32_t members;
  std::size_t depth;
};

/// Computes which block a member receives in each step of a phase (the paper's receive schedule). In step k
/// the member receives the base block of another member, whose rank is lower. The difference of the two ranks
/// is between skip k and skip k + 1. The member must not have received this base block in an earlier step of
/// the phase. So in each phase the member receives its own base block, and all other base blocks of the
/// previous phase. The search finds the other members as sums of skips, the nearest member first. It adds the
/// number of members to the member's own rank, so that no rank becomes negative.
class ReceiveSearch {
 public:
  ReceiveSearch(const Graph& graph, std::uint32_t rank) : graph_(graph), rank_(graph.members + rank) {
    // Links the remaining base blocks in descending order. The list is circular and contains end().
    for (std::size_t block = 0; block <= end(); ++block) {
      next_[block] = block == 0 ? end() : block - 1;
      previous_[block] = block == end() ? 0 : block + 1;
    }
    const std::size_t own = graph.base_block(rank);
    if (own != graph.depth) take(own);
    search(0, 2 * graph.members, next_[end()]);
    for (std::size_t step = 0; step < graph.depth; ++step)
      blocks_[step] =
          found_[step] == graph.depth ? static_cast<std::int8_t>(own) : graph.earlier(found_[step]);
  }

  const Blocks& blocks() const { return blocks_; }

 private:
  std::size_t end() const { return graph_.depth + 1; }
  void take(std::size_t block) {
    next_[previous_[block]] = next_[block];
    previous_[next_[block]] = previous_[block];
  }

  /// Adds one more skip to `sum`: skip `number` or a smaller skip. The function tries all sums that lead to a
  /// member before `limit`.
  void search(std::uint32_t sum, std::uint32_t limit, std::size_t number) {
    for (; number != end(); number = next_[number]) {
      const std::uint32_t reached = sum + graph_.skip(number);
      if (reached > rank_ - graph_.skip(step_) || reached >= limit) continue;
      if (reached <= rank_ - graph_.skip(step_ + 1)) search(reached, limit, next_[number]);
      if (step_ == graph_.depth || sum > rank_ - graph_.skip(step_ + 1)) return;
      limit = reached;
      found_[step_++] = number;
      take(number);
      if (step_ == graph_.depth) return;
    }
  }

  const Graph& graph_;
  std::uint32_t rank_;
  std::size_t step_ = 0;  // the step of the phase for which a block is searched next
  std::array<std::size_t, kMostSkips + 1> next_{}, previous_{};
  std::array<std::size_t, kMostSkips> found_{};
  Blocks blocks_{};
};

/// Computes the block that a member sends in each step of a phase (the paper's send schedule). It is the
/// block that the member's destination receives in this step. The function goes through the steps from the
/// last to the first. At the last step, the whole group is one part. In each step, the skip of the step
/// divides the part that contains the member into a lower and an upper part. If the member is in the upper
/// part, it sends the base block of the first member of the upper part. The number of this base block is the
/// number of the skip. If the member is in the lower part, it sends the base block of the last upper part
/// that it was in, or its own base block if it has not been in an upper part yet. This rule does not apply to
/// the first member of an upper part, or if the destination is outside of the part. In these steps (at most
/// five) the function computes which block the destination receives.
Blocks sends(const Graph& graph, std::uint32_t rank) {
  Blocks blocks{};
  if (rank == 0) {
    for (std::size_t step = 0; step < graph.depth; ++step) blocks[step] = static_cast<std::int8_t>(step);
    return blocks;
  }
  const std::size_t base = graph.base_block(rank);
  auto block = static_cast<std::int8_t>(base);
  std::uint32_t position = rank, size = graph.members;
  for (std::size_t step = graph.depth; --step > 0;) {
    const std::uint32_t half = graph.skip(step);
    const bool is_upper = position >= half;
    const bool is_plain = is_upper ? position > half : position + half < size;
    if (is_upper) block = graph.earlier(step);
    blocks[step] = is_plain ? block : ReceiveSearch(graph, graph.destination(rank, step)).blocks()[step];
    if (is_upper) position -= half;
    size = is_upper ? size - half : std::min(size, half);
  }
  blocks[0] = graph.earlier(base);
  return blocks;
}

}  // namespace

Circulant::Circulant(Rank rank, std::uint32_t members)
    : rank_(value_of(rank)), members_(members), depth_(depth_of(members)) {
  if (members == 1) return;
  const Graph graph(members);
  const Blocks received = ReceiveSearch(graph, rank_).blocks(), sent = sends(graph, rank_);
  const auto lag = [](std::size_t step, std::int8_t block) {
    return static_cast<std::uint8_t>(static_cast<int>(step) - block);
  };
  for (std::size_t step = 0; step < depth_; ++step)
    phase_[step] = {.source = graph.source(rank_, step),
                    .destination = graph.destination(rank_, step),
                    .receive_lag = lag(step, received[step]),
                    .send_lag = lag(step, sent[step])};
}

/// In the last phase, the number of a member's base block may exceed that of the message's last block. Then
/// the member receives the last block in place of its base block. All other blocks of that phase have lower
/// numbers than the last block. So each member receives the last block exactly once, like every other block.
StepTransfers Circulant::at(std::uint64_t step, std::uint64_t blocks) const {
  const PhaseStep& due = phase_[(step + skipped(blocks)) % depth_];
  const auto block = [&](std::uint64_t lag) { return std::min(step - lag, blocks - 1); };
  StepTransfers now;
  if (due.destination != 0 && step >= due.send_lag)
    now.send = Transfer{Rank{due.destination}, block(due.send_lag)};
  if (rank_ != 0 && step >= due.receive_lag) now.receive = Transfer{Rank{due.source}, block(due.receive_lag)};
  return now;
}

std::optional<std::uint64_t> Circulant::next_receive(std::size_t index, std::uint64_t step,
                                                     std::uint64_t blocks) const {
  const std::uint64_t from = std::max<std::uint64_t>(step, phase_[index].receive_lag) + skipped(blocks);
  return before(next_congruent(from, index, depth_) - skipped(blocks), steps(blocks));
}

std::optional<std::uint64_t> Circulant::next_receive_from(Rank source, std::uint64_t step,
                                                          std::uint64_t blocks) const {
  if (rank_ == 0) return std::nullopt;
  for (std::size_t index = 0; index < depth_; ++index)
    if (Rank{phase_[index].source} == source) return next_receive(index, step, blocks);
  return std::nullopt;
}

std::optional<Transfer> Circulant::first_receive(std::uint64_t blocks) const {
  if (rank_ == 0) return std::nullopt;
  std::uint64_t first = steps(blocks) - 1;
  for (std::size_t index = 0; index < depth_; ++index)
    first = std::min(first, next_receive(index, 0, blocks).value_or(first));
  return at(first, blocks).receive;
}

std::vector<Rank> Circulant::sources() const {
  std::vector<Rank> found;
  for (std::size_t index = 0; rank_ != 0 && index < depth_; ++index)
    found.push_back(Rank{phase_[index].source});
  return found;
}

std::vector<Rank> Circulant::destinations() const {
  std::vector<Rank> found;
  for (std::size_t index = 0; index < depth_; ++index)
    if (phase_[index].destination != 0) found.push_back(Rank{phase_[index].destination});
  return found;
}

Pace Circulant::pace() const {
  Pace pace;
  bool any = false;
  for (std::size_t index = 0; index < depth_; ++index) {
    const PhaseStep& due = phase_[index];
    if (due.destination == 0) continue;
    pace.lead = any ? std::min<std::uint64_t>(pace.lead, due.send_lag) : due.send_lag;
    pace.lag = std::max<std::uint64_t>(pace.lag, due.send_lag);
    any = true;
  }
  return pace;
}

/// This formula was found by counting the slots that many plans need. Tests show that it is exact.
std::uint64_t Circulant::minimum_slots() const {
  if (members_ <= 2) return 1;
  return depth_ + (8 * std::uint64_t{members_} <= std::uint64_t{5} << depth_ ? 2 : 1);
}

}  // namespace rdmc::relay
