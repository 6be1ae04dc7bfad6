// The shape of two binary trees (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast,
// reduction and scan", Parallel Computing 35, 2009): who passes blocks on to whom in which tree, and from
// which step on. Two plans are made of it: `two_trees` and `site_trees`. A plain value; any thread.
#pragma once

#include <array>
#include <cstdint>

namespace rdmc::relay {

/// The trees over an even number of positions, 1 … positions. In the first a position's height is that of its
/// lowest set bit, so odd positions are its leaves; in the second position i stands where positions + 1 - i
/// stands in the first. One more member, if there is one, is a leaf of both, where each has one child too
/// few. Place 0 is the root, above both. Ways have one of two colours, the parity of the steps in which they
/// carry blocks: no two ways into or out of a position have the same.
class Trees {
 public:
  /// members >= 1, the root included.
  explicit Trees(std::uint32_t members) : others_(members - 1), positions_(others_ & ~1U) {}

  struct Way {
    std::uint32_t from;
    std::uint64_t start;  // the first step, of the way's colour
  };

  /// To position `to` (1 … others) in tree 0 or 1.
  Way way(std::uint32_t to, std::uint32_t tree) const;
  /// The way on which somebody beyond these positions can get all blocks of a tree: one position has one
  /// child too few. In tree 1 it starts one step later than in tree 0.
  Way way_on(std::uint32_t tree) const;
  /// The children of a position in a tree; 0 for none.
  std::array<std::uint32_t, 2> children(std::uint32_t position, std::uint32_t tree) const;
  /// The root's child in a tree; 0 for none.
  std::uint32_t top(std::uint32_t tree) const;

 private:
  /// How a block comes to a position of the first tree: its way's colour and first step.
  struct Step {
    std::uint32_t parent;
    std::uint32_t colour;
    std::uint64_t start;
  };

  std::uint32_t mirrored(std::uint32_t position, std::uint32_t tree) const {
    return tree == 0 ? position : positions_ + 1 - position;
  }
  std::uint32_t parent_in_first(std::uint32_t position) const;
  std::array<std::uint32_t, 2> children_in_first(std::uint32_t position) const;
  Step descend(std::uint32_t position) const;
  Way free_way(std::uint32_t tree) const;

  std::uint32_t others_;
  std::uint32_t positions_;
};

}  // namespace rdmc::relay
