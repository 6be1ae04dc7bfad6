#include "dataplane/relay/circulant.hpp"

namespace rdmc::relay {

namespace {

constexpr std::size_t kMostSkips = static_cast<std::size_t>(depth_of(kMaxMembers)) + 1;

/// By round: a block's number relative to the phase.
using Blocks = std::array<std::int8_t, kMostSkips>;

/// The skips of a group. Every member but the root is a sum of different skips, found by taking the largest
/// that fits. The index of the least of them is the member's base block: the one block of a phase that it
/// receives in that phase. members >= 2.
struct Graph {
  explicit Graph(std::uint32_t member_count)
      : members(member_count), rounds(static_cast<std::size_t>(depth_of(member_count))) {}

  /// `members` for round number `rounds`; half of it, rounded up, for the round before, and so on down to 1.
  std::uint32_t skip(std::size_t round) const { return ((members - 1) >> (rounds - round)) + 1; }

  std::uint32_t source(std::uint32_t rank, std::size_t round) const {
    return (rank + members - skip(round)) % members;
  }
  std::uint32_t destination(std::uint32_t rank, std::size_t round) const {
    return (rank + skip(round)) % members;
  }
  /// `rounds` for the root.
  std::size_t base_block(std::uint32_t rank) const {
    for (std::size_t round = rounds; rank != 0 && round-- > 0;) {
      if (skip(round) <= rank) rank -= skip(round);
      if (rank == 0) return round;
    }
    return rounds;
  }
  /// The block with this index of the phase before.
  std::int8_t earlier(std::size_t block) const {
    return static_cast<std::int8_t>(static_cast<int>(block) - static_cast<int>(rounds));
  }

  std::uint32_t members;
  std::size_t rounds;
};

/// What a member receives in each round of a phase (section 2.3 of the paper). In round k it is the base
/// block of a member that lies between skip k and skip k + 1 before it, of those that it has not taken in an
/// earlier round: so in any phase it receives its own base block and, of the phase before, all others. The
/// search looks for these members, nearest first, as sums of skips; `members` is added to the member's own
/// number so that nothing wraps around.
class ReceiveSearch {
 public:
  ReceiveSearch(const Graph& graph, std::uint32_t rank) : graph_(graph), rank_(graph.members + rank) {
    // The base blocks that are left, from the largest to the least: a ring through end().
    for (std::size_t block = 0; block <= end(); ++block) {
      next_[block] = block == 0 ? end() : block - 1;
      previous_[block] = block == end() ? 0 : block + 1;
    }
    const std::size_t own = graph.base_block(rank);
    if (own != graph.rounds) take(own);
    search(0, 2 * graph.members, next_[end()]);
    for (std::size_t round = 0; round < graph.rounds; ++round)
      blocks_[round] =
          found_[round] == graph.rounds ? static_cast<std::int8_t>(own) : graph.earlier(found_[round]);
  }

  const Blocks& blocks() const { return blocks_; }

 private:
  std::size_t end() const { return graph_.rounds + 1; }
  void take(std::size_t block) {
    next_[previous_[block]] = next_[block];
    previous_[next_[block]] = previous_[block];
  }

  /// Adds one more skip to `sum`, `skip` or a lesser one, in all ways that lead to a member before `limit`.
  void search(std::uint32_t sum, std::uint32_t limit, std::size_t skip) {
    for (; skip != end(); skip = next_[skip]) {
      const std::uint32_t reached = sum + graph_.skip(skip);
      if (reached > rank_ - graph_.skip(round_) || reached >= limit) continue;
      if (reached <= rank_ - graph_.skip(round_ + 1)) search(reached, limit, next_[skip]);
      if (round_ == graph_.rounds || sum > rank_ - graph_.skip(round_ + 1)) return;
      limit = reached;
      found_[round_++] = skip;
      take(skip);
      if (round_ == graph_.rounds) return;
    }
  }

  const Graph& graph_;
  std::uint32_t rank_;
  std::size_t round_ = 0;
  std::array<std::size_t, kMostSkips + 1> next_{}, previous_{};
  std::array<std::size_t, kMostSkips> found_{};
  Blocks blocks_{};
};

/// What a member sends in each round of a phase: what its destination receives (section 2.4 of the paper).
/// The rounds are looked at from the last to the first. In each, the member lies in a stretch of members that
/// the round's skip cuts into a lower and an upper part, and the stretch for the next round is that part. In
/// the lower part it sends on what it sent to the part above, and at first its base block; in the upper part
/// it sends the base block of the part's first member. This does not tell what a destination beyond the
/// stretch receives, nor what the first member of an upper part sends: in these few rounds, up to five, the
/// destination's own receives do.
Blocks sends(const Graph& graph, std::uint32_t rank) {
  Blocks blocks{};
  if (rank == 0) {
    for (std::size_t round = 0; round < graph.rounds; ++round)
      blocks[round] = static_cast<std::int8_t>(round);
    return blocks;
  }
  const std::size_t base = graph.base_block(rank);
  auto block = static_cast<std::int8_t>(base);
  std::uint32_t place = rank, size = graph.members;
  for (std::size_t round = graph.rounds; --round > 0;) {
    const std::uint32_t half = graph.skip(round);
    const bool is_upper = place >= half;
    const bool is_plain = is_upper ? place > half : place + half < size;
    if (is_upper) block = graph.earlier(round);
    blocks[round] = is_plain ? block : ReceiveSearch(graph, graph.destination(rank, round)).blocks()[round];
    if (is_upper) place -= half;
    size = is_upper ? size - half : std::min(size, half);
  }
  blocks[0] = graph.earlier(base);
  return blocks;
}

}  // namespace

Circulant::Circulant(Rank rank, std::uint32_t members)
    : rank_(value_of(rank)), members_(members), rounds_(depth_of(members)) {
  if (members == 1) return;
  const Graph graph(members);
  const Blocks received = ReceiveSearch(graph, rank_).blocks(), sent = sends(graph, rank_);
  const auto lag = [](std::size_t round, std::int8_t block) {
    return static_cast<std::uint8_t>(static_cast<int>(round) - block);
  };
  for (std::size_t round = 0; round < rounds_; ++round)
    round_[round] = {.source = graph.source(rank_, round),
                     .destination = graph.destination(rank_, round),
                     .receive_lag = lag(round, received[round]),
                     .send_lag = lag(round, sent[round])};
}

/// In the last phase each member's base block would be the last one or beyond it, and is the last; the others
/// come before it. So each member receives the last block once, too.
StepTransfers Circulant::at(std::uint64_t step, std::uint64_t blocks) const {
  const Round& round = round_[(step + skipped(blocks)) % rounds_];
  const auto block = [&](std::uint64_t lag) { return std::min(step - lag, blocks - 1); };
  StepTransfers now;
  if (round.destination != 0 && step >= round.send_lag)
    now.send = Transfer{Rank{round.destination}, block(round.send_lag)};
  if (rank_ != 0 && step >= round.receive_lag)
    now.receive = Transfer{Rank{round.source}, block(round.receive_lag)};
  return now;
}

std::optional<std::uint64_t> Circulant::next_receive(std::size_t index, std::uint64_t step,
                                                     std::uint64_t blocks) const {
  const std::uint64_t from = std::max<std::uint64_t>(step, round_[index].receive_lag) + skipped(blocks);
  return before(next_congruent(from, index, rounds_) - skipped(blocks), steps(blocks));
}

std::optional<std::uint64_t> Circulant::next_receive_from(Rank source, std::uint64_t step,
                                                          std::uint64_t blocks) const {
  if (rank_ == 0) return std::nullopt;
  for (std::size_t index = 0; index < rounds_; ++index)
    if (Rank{round_[index].source} == source) return next_receive(index, step, blocks);
  return std::nullopt;
}

std::optional<Transfer> Circulant::first_receive(std::uint64_t blocks) const {
  if (rank_ == 0) return std::nullopt;
  std::uint64_t first = steps(blocks) - 1;
  for (std::size_t index = 0; index < rounds_; ++index)
    first = std::min(first, next_receive(index, 0, blocks).value_or(first));
  return at(first, blocks).receive;
}

std::vector<Rank> Circulant::sources() const {
  std::vector<Rank> found;
  for (std::size_t index = 0; rank_ != 0 && index < rounds_; ++index)
    found.push_back(Rank{round_[index].source});
  return found;
}

std::vector<Rank> Circulant::destinations() const {
  std::vector<Rank> found;
  for (std::size_t index = 0; index < rounds_; ++index)
    if (round_[index].destination != 0) found.push_back(Rank{round_[index].destination});
  return found;
}

Pace Circulant::pace() const {
  Pace pace;
  bool any = false;
  for (std::size_t index = 0; index < rounds_; ++index) {
    const Round& round = round_[index];
    if (round.destination == 0) continue;
    pace.lead = any ? std::min<std::uint64_t>(pace.lead, round.send_lag) : round.send_lag;
    pace.lag = std::max<std::uint64_t>(pace.lag, round.send_lag);
    any = true;
  }
  return pace;
}

/// Found by counting, and tested to be exact.
std::uint64_t Circulant::minimum_slots() const {
  if (members_ <= 2) return 1;
  return rounds_ + (8 * std::uint64_t{members_} <= std::uint64_t{5} << rounds_ ? 2 : 1);
}

}  // namespace rdmc::relay
