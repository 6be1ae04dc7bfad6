// The graph of the binomial pipeline (RDMC, section 3; Ganesan and Seshadri 2005). There are 2^L vertices,
// with L = floor(log2 n) for n members. Vertex 0 contains only the root. Each of the vertices 1 to n - 2^L
// contains two members, v and its twin v + 2^L - 1. In step t, each vertex exchanges blocks with its
// neighbour in dimension t mod L. The two members of a vertex alternate: one member receives from another
// vertex while the other member sends to another vertex. The receiving member also passes its twin a block
// that the twin lacks. Plain values that any thread may use.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "dataplane/relay/plan.hpp"

namespace rdmc::relay {

/// The hypercube of one group, for a message of a certain length. Precondition: members >= 2.
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
        steps(least_steps(member_count, block_count)) {}

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

  /// The number of times that the two members of a vertex have changed roles before `step`.
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

  /// True for the last step if there are twins. In this step, twins only exchange the blocks that they lack.
  bool is_final(std::uint64_t step) const { return has_pairs() && step == steps - 1; }

  /// The block that leaves `vertex` for its neighbour in this step's dimension. The neighbour's number,
  /// rotated by the dimension, determines the block.
  std::optional<std::uint64_t> outgoing(std::uint32_t vertex, std::uint64_t step) const {
    const std::uint32_t to = across(vertex, step);
    if (to == 0 || is_final(step)) return std::nullopt;
    const std::uint64_t d = step % dimensions;
    const std::uint32_t rotated = (to >> d | to << (dimensions - d)) & (vertices - 1);
    std::uint64_t lead = 0;  // the number of dimensions from the block's first hop to this hop
    if ((rotated & 1) != 0) {
      const std::uint32_t upper = rotated & ~std::uint32_t{1};
      lead = upper == 0 ? dimensions : static_cast<std::uint64_t>(std::countr_zero(upper));
    }
    if (step + lead < dimensions) return std::nullopt;
    return std::min(step + lead - dimensions, blocks - 1);
  }

  /// The block that `vertex` receives from another vertex in `step`.
  std::optional<std::uint64_t> incoming(std::uint32_t vertex, std::uint64_t step) const {
    return outgoing(across(vertex, step), step);
  }

  /// The block that the receiver of a pair passes to its twin in `step`: the latest block from another vertex
  /// that the twin does not hold. `step` must not be the final step.
  std::optional<std::uint64_t> handed(std::uint32_t vertex, std::uint64_t step) const {
    if (step == 0) return std::nullopt;
    const std::uint64_t now = flips(vertex, step);
    if (flips(vertex, step - 1) == now) return now == 0 ? std::nullopt : incoming(vertex, step - 1);
    if (now < 2) return std::nullopt;
    std::uint64_t earlier = step - 1;
    while (flips(vertex, earlier) != now - 2) --earlier;
    return incoming(vertex, earlier);
  }

  /// The block that `rank`, a member of a pair, last received from another vertex.
  std::optional<std::uint64_t> last_from_outside(std::uint32_t rank) const {
    const std::uint32_t vertex = vertex_of(rank);
    for (std::uint64_t step = steps - 1; step-- > 0;) {
      if (receiver(vertex, step) != rank) continue;
      if (const auto block = incoming(vertex, step)) return block;
    }
    return std::nullopt;
  }

  bool are_neighbours(std::uint32_t a, std::uint32_t b) const {
    const std::uint32_t difference = vertex_of(a) ^ vertex_of(b);
    return a != b && (difference == 0 || std::has_single_bit(difference));
  }

  /// The step from which on all members take part: the first step of the fifth round. A round has one step
  /// for each dimension. The roles of twins repeat after two rounds (period).
  std::uint64_t settled() const { return 4 * std::uint64_t{dimensions}; }
  std::uint64_t period() const { return 2 * std::uint64_t{dimensions}; }
};

}  // namespace rdmc::relay
