#include "dataplane/relay/schedule.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace rdmc::relay {

// The hypercube (RDMC, section 3; Ganesan and Seshadri 2005). With L = floor(log2 n) there are 2^L vertices.
// Vertex 0 is the root alone; of the others, vertices 1 ... n - 2^L hold two members, v and its twin v + 2^L
// - 1. In step t all vertices trade across dimension t mod L, and the two members of a vertex take turns: one
// receives from outside while the other sends, and the receiver hands its twin what that one lacks.

namespace {

/// ceil(log2 members).
std::uint64_t depth_of(std::uint32_t members) {
  return static_cast<std::uint64_t>(std::bit_width(members - 1));
}

/// One group's hypercube and one message's length on it.
struct Hypercube {
  std::uint32_t members;
  std::uint32_t dimensions;
  std::uint32_t vertices;
  std::uint64_t blocks;
  std::uint64_t steps;

  Hypercube(std::uint32_t member_count, std::uint64_t block_count)
      : members(member_count),
        dimensions(static_cast<std::uint32_t>(std::bit_width(member_count)) - 1),
        vertices(std::uint32_t{1} << dimensions),
        blocks(block_count),
        steps(block_count + depth_of(member_count) - 1) {}

  bool has_pairs() const { return members > vertices; }
  bool is_pair(std::uint32_t vertex) const { return vertex >= 1 && vertex <= members - vertices; }
  std::uint32_t twin(std::uint32_t vertex) const { return is_pair(vertex) ? vertex + vertices - 1 : vertex; }
  std::uint32_t vertex_of(std::uint32_t rank) const { return rank < vertices ? rank : rank - vertices + 1; }
  std::uint32_t other(std::uint32_t rank) const {
    const std::uint32_t vertex = vertex_of(rank);
    return rank == vertex ? twin(vertex) : vertex;
  }
  std::uint32_t across(std::uint32_t vertex, std::uint64_t step) const {
    return vertex ^ (std::uint32_t{1} << (step % dimensions));
  }

  /// How often the two members of a vertex have changed roles before `step`.
  std::uint64_t flips(std::uint32_t vertex, std::uint64_t step) const {
    const std::uint32_t below = (std::uint32_t{1} << (step % dimensions)) - 1;
    return step / dimensions * static_cast<std::uint64_t>(std::popcount(vertex)) +
           static_cast<std::uint64_t>(std::popcount(vertex & below));
  }
  std::uint32_t receiver(std::uint32_t vertex, std::uint64_t step) const {
    return flips(vertex, step) % 2 == 0 ? vertex : twin(vertex);
  }
  std::uint32_t sender(std::uint32_t vertex, std::uint64_t step) const {
    return flips(vertex, step) % 2 == 0 ? twin(vertex) : vertex;
  }

  /// In the last step the twins only complete each other.
  bool is_final(std::uint64_t step) const { return has_pairs() && step == steps - 1; }

  /// The block that leaves `vertex` for the vertex across, which its dimension-wise rotation decides.
  std::optional<std::uint64_t> outgoing(std::uint32_t vertex, std::uint64_t step) const {
    const std::uint32_t to = across(vertex, step);
    if (to == 0 || is_final(step)) return std::nullopt;
    const std::uint64_t d = step % dimensions;
    const std::uint32_t rotated = (to >> d | to << (dimensions - d)) & (vertices - 1);
    std::uint64_t lead = 0;  // how many dimensions lie between the block's first hop and this one
    if ((rotated & 1) != 0) {
      const std::uint32_t upper = rotated & ~std::uint32_t{1};
      lead = upper == 0 ? dimensions : static_cast<std::uint64_t>(std::countr_zero(upper));
    }
    if (step + lead < dimensions) return std::nullopt;
    return std::min(step + lead - dimensions, blocks - 1);
  }

  /// What reaches `vertex` from outside in `step`.
  std::optional<std::uint64_t> incoming(std::uint32_t vertex, std::uint64_t step) const {
    return outgoing(across(vertex, step), step);
  }

  /// The block that the receiver of a pair hands to its twin in `step` (not the final one): its latest from
  /// outside that the twin does not hold.
  std::optional<std::uint64_t> handed(std::uint32_t vertex, std::uint64_t step) const {
    if (step == 0) return std::nullopt;
    const std::uint64_t now = flips(vertex, step);
    if (flips(vertex, step - 1) == now) return now == 0 ? std::nullopt : incoming(vertex, step - 1);
    if (now < 2) return std::nullopt;
    std::uint64_t earlier = step - 1;
    while (flips(vertex, earlier) != now - 2) --earlier;
    return incoming(vertex, earlier);
  }

  /// The block that `rank`, one of a pair, last received from outside.
  std::optional<std::uint64_t> last_from_outside(std::uint32_t rank) const {
    const std::uint32_t vertex = vertex_of(rank);
    for (std::uint64_t step = steps - 1; step-- > 0;) {
      if (receiver(vertex, step) != rank) continue;
      if (const auto block = incoming(vertex, step)) return block;
    }
    return std::nullopt;
  }
};

std::optional<Transfer> transfer(std::uint32_t peer, std::optional<std::uint64_t> block) {
  if (!block) return std::nullopt;
  return Transfer{Rank{peer}, *block};
}

bool is_neighbour(const Hypercube& cube, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t difference = cube.vertex_of(a) ^ cube.vertex_of(b);
  return a != b && (difference == 0 || std::has_single_bit(difference));
}

/// Roles of twins repeat after two rounds of all dimensions; by the fifth everybody takes part.
std::uint64_t settled(const Hypercube& cube) {
  return 4 * std::uint64_t{cube.dimensions};
}
std::uint64_t period(const Hypercube& cube) {
  return 2 * std::uint64_t{cube.dimensions};
}

}  // namespace

Schedule::Schedule(Algorithm algorithm, Rank rank, std::uint32_t members)
    : algorithm_(algorithm), rank_(value_of(rank)), members_(members) {
  assert(members >= 1 && members <= kMaxMembers && rank_ < members);
}

std::uint64_t Schedule::steps(std::uint64_t blocks) const {
  assert(blocks >= 1 && blocks <= kMaxBlocks);
  return members_ == 1 ? 0 : blocks + depth_of(members_) - 1;
}

StepTransfers Schedule::at(std::uint64_t step, std::uint64_t blocks) const {
  assert(step < steps(blocks));
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

/// The last step of a message of one block. Twins could hand it over, but then somebody's first source would
/// be another than in a longer message: so everybody who still lacks it gets it as there.
StepTransfers Schedule::only_block(std::uint64_t step) const {
  const auto lacks_it = [&](std::uint32_t rank) {
    const Schedule member(algorithm_, Rank{rank}, members_);
    for (std::uint64_t earlier = 0; earlier < step; ++earlier) {
      if (member.at(earlier, kMaxBlocks).receive) return false;
    }
    return true;
  };
  StepTransfers now = at(step, kMaxBlocks);
  if (now.send)
    now.send = lacks_it(value_of(now.send->peer)) ? transfer(value_of(now.send->peer), 0) : std::nullopt;
  if (now.receive) now.receive = lacks_it(rank_) ? transfer(value_of(now.receive->peer), 0) : std::nullopt;
  return now;
}

std::optional<Transfer> Schedule::first_receive(std::uint64_t blocks) const {
  if (is_root()) return std::nullopt;
  for (std::uint64_t step = 0;; ++step) {
    if (auto first = at(step, kMaxBlocks).receive) {
      first->block = std::min(first->block, blocks - 1);
      return first;
    }
  }
}

std::optional<Rank> Schedule::first_source_of(Rank member) const {
  const auto first = Schedule(algorithm_, member, members_).first_receive(1);
  if (!first) return std::nullopt;
  return first->peer;
}

namespace {

std::vector<Rank> peers(const Schedule& schedule, bool of_sends, bool of_receives) {
  std::vector<Rank> found;
  if (schedule.members() == 1) return found;
  const Hypercube cube(schedule.members(), Schedule::kMaxBlocks);
  const std::uint32_t rank = value_of(schedule.rank());
  if (cube.other(rank) != rank) found.push_back(Rank{cube.other(rank)});
  for (std::uint64_t step = 0; step < settled(cube) + period(cube); ++step) {
    const auto [send, receive] = schedule.at(step, Schedule::kMaxBlocks);
    if (of_sends && send) found.push_back(send->peer);
    if (of_receives && receive) found.push_back(receive->peer);
  }
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

}  // namespace

std::vector<Rank> Schedule::sources() const {
  return peers(*this, false, true);
}
std::vector<Rank> Schedule::destinations() const {
  return peers(*this, true, false);
}
std::vector<Rank> Schedule::neighbours() const {
  return peers(*this, true, true);
}

std::optional<std::uint64_t> Schedule::next_receive_from(Rank source, std::uint64_t step,
                                                         std::uint64_t blocks) const {
  if (is_root() || members_ == 1) return std::nullopt;
  const Hypercube cube(members_, blocks);
  if (!is_neighbour(cube, value_of(source), rank_)) return std::nullopt;
  const std::uint32_t difference = cube.vertex_of(value_of(source)) ^ cube.vertex_of(rank_);
  const bool is_twin = difference == 0;
  const std::uint64_t stride = is_twin ? 1 : cube.dimensions;
  const std::uint64_t end = std::min(cube.steps, std::max(step, settled(cube)) + period(cube));
  const auto receives = [&](std::uint64_t at_step) {
    const auto receive = at(at_step, blocks).receive;
    return receive && receive->peer == source;
  };
  if (!is_twin) {
    const std::uint64_t dimension = static_cast<std::uint64_t>(std::countr_zero(difference));
    step += (dimension + stride - step % stride) % stride;
  }
  for (; step < end; step += stride) {
    if (receives(step)) return step;
  }
  if (is_twin && step < cube.steps && receives(cube.steps - 1)) return cube.steps - 1;
  return std::nullopt;
}

std::uint64_t Schedule::send_lag() const {
  return depth_of(members_);
}

std::uint64_t Schedule::minimum_slots() const {
  if (members_ == 1) return 1;
  return depth_of(members_) + (std::has_single_bit(members_) ? 0 : 1);
}

}  // namespace rdmc::relay
