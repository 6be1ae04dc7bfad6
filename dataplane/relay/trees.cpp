#include "dataplane/relay/trees.hpp"

#include <bit>

namespace rdmc::relay {

namespace {

std::uint64_t after(std::uint64_t start, std::uint32_t colour_above, std::uint32_t colour) {
  return start + (colour_above == colour ? 2 : 1);
}

/// Returns the first step of an edge in `tree`, if `start` is its first step in the first tree. In the second
/// tree all edges have the other colour, and every step is one step later.
std::uint64_t start_in(std::uint32_t tree, std::uint64_t start) {
  return start + tree;
}

}  // namespace

Trees::Way Trees::way(std::uint32_t to, std::uint32_t tree) const {
  if (to > positions_) return free_way(tree);
  const Step step = descend(mirrored(to, tree));
  return {step.parent == 0 ? 0 : mirrored(step.parent, tree), start_in(tree, step.start)};
}

Trees::Way Trees::way_on(std::uint32_t tree) const {
  const Way free = free_way(tree);
  return others_ > positions_ ? Way{others_, free.start + 1} : free;
}

std::array<std::uint32_t, 2> Trees::children(std::uint32_t position, std::uint32_t tree) const {
  if (position == 0) return {top(tree), 0};
  if (position > positions_) return {0, 0};
  auto found = children_in_first(mirrored(position, tree));
  for (std::uint32_t& child : found)
    if (child != 0) child = mirrored(child, tree);
  // The position that has the highest number in its tree has no right child.
  if (others_ > positions_ && mirrored(position, tree) == positions_) found[1] = others_;
  return found;
}

std::uint32_t Trees::top(std::uint32_t tree) const {
  return positions_ == 0 ? others_ : mirrored(std::bit_floor(positions_), tree);
}

std::uint32_t Trees::parent_in_first(std::uint32_t position) const {
  const std::uint32_t low = position & -position;
  return (position & low << 1) != 0 || position + low > positions_ ? position - low : position + low;
}

std::array<std::uint32_t, 2> Trees::children_in_first(std::uint32_t position) const {
  std::uint32_t low = (position & -position) >> 1;
  if (low == 0) return {0, 0};
  const std::uint32_t left = position - low;
  while (low != 0 && position + low > positions_) low >>= 1;
  return {left, low == 0 ? 0 : position + low};
}

/// Returns the edge to a position of the first tree (Sanders, Speck and Träff, section 3). The edges to two
/// siblings have different colours. The two edges to the same position in the two trees have different
/// colours, too.
Trees::Step Trees::descend(std::uint32_t position) const {
  if (position == std::bit_floor(positions_)) return {0, 0, 0};
  const std::uint32_t parent = parent_in_first(position);
  const Step above = descend(parent);
  // An odd position is a leaf of this tree, and it has children in the second tree. Its edge in the second
  // tree has the opposite colour of the edge to the mirrored position in this tree. The edges to a position
  // have different colours in the two trees, so the edge here has the same colour as the edge to the mirrored
  // position.
  const std::uint32_t colour = position % 2 == 1
                                   ? descend(positions_ + 1 - position).colour
                                   : above.colour ^ (positions_ / 2 & 1) ^ (parent > position ? 1 : 0);
  return {parent, colour, after(above.start, above.colour, colour)};
}

/// Returns the edge to one more child of the position that has only one child in the tree. The edge has the
/// colour that the edge to the only child does not have.
Trees::Way Trees::free_way(std::uint32_t tree) const {
  if (positions_ == 0) return {0, tree};
  const Step above = descend(positions_);
  const std::uint32_t colour = 1 - descend(children_in_first(positions_)[0]).colour;
  return {mirrored(positions_, tree), start_in(tree, after(above.start, above.colour, colour))};
}

}  // namespace rdmc::relay
