// The shape of two binary trees (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast,
// reduction and scan", Parallel Computing 35, 2009): which member passes blocks on to which other member in
// each tree, and from which step on. The plans `two_trees` and `site_trees` use this shape. A plain value
// that any thread may use.
#pragma once

#include <array>
#include <cstdint>

namespace rdmc::relay {

/// The trees have an even number of positions, 1 … positions. In the first tree, a position's height is the
/// number of its lowest set bit, so the odd positions are the leaves. In the second tree, position i is where
/// positions + 1 - i is in the first tree. If the number of members without the root is odd, the last member
/// is a leaf of both trees, below the position that has only one child. Position 0 is the root, above both
/// trees. A Way is an edge of a tree. It has one of two colours: the parity of the steps in which it carries
/// blocks. The two edges to a position (one in each tree) have different colours. The edges from a position
/// to its children have different colours, too.
class Trees {
 public:
  /// Precondition: members >= 1, including the root.
  explicit Trees(std::uint32_t members) : others_(members - 1), positions_(others_ & ~1U) {}

  struct Way {
    std::uint32_t from;
    std::uint64_t start;  // the first step; its parity is the colour
  };

  /// The edge to position `to` (1 … others) in tree 0 or 1.
  Way way(std::uint32_t to, std::uint32_t tree) const;
  /// The edge over which a member outside of these trees can receive all blocks of a tree. It starts at the
  /// position that has only one child. If the last member is a leaf of both trees, the edge starts at the
  /// last member. In tree 1 its first step is one step later than in tree 0.
  Way way_on(std::uint32_t tree) const;
  /// The children of a position in a tree. 0 means that there is no child.
  std::array<std::uint32_t, 2> children(std::uint32_t position, std::uint32_t tree) const;
  /// The root's child in a tree. 0 means that there is no child.
  std::uint32_t top(std::uint32_t tree) const;

 private:
  /// The edge to a position of the first tree: its parent, its colour and its first step.
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
