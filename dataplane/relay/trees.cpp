#include "dataplane/relay/trees.hpp"

#include <bit>

namespace rdmc::relay {

namespace {

std::uint64_t after(std::uint64_t start, std::uint32_t colour_above, std::uint32_t colour) {
  return start + (colour_above == colour ? 2 : 1);
}

/// In the second tree all colours are the other, and all is one step later.
std::uint64_t start_in(std::uint32_t tree, std::uint64_t start) {
  return start + tree;
}

}  // namespace

Trees::Way Trees::way(std::uint32_t to, std::uint32_t tree) const {
  if (to > places_) return free_way(tree);
  const Step step = descend(mirrored(to, tree));
  return {step.parent == 0 ? 0 : mirrored(step.parent, tree), start_in(tree, step.start)};
}

Trees::Way Trees::way_on(std::uint32_t tree) const {
  const Way free = free_way(tree);
  return others_ > places_ ? Way{others_, free.start + 1} : free;
}

std::array<std::uint32_t, 2> Trees::children(std::uint32_t place, std::uint32_t tree) const {
  if (place == 0) return {top(tree), 0};
  if (place > places_) return {0, 0};
  auto found = children_in_first(mirrored(place, tree));
  for (std::uint32_t& child : found)
    if (child != 0) child = mirrored(child, tree);
  // The place of the most one in its tree lacks a right child.
  if (others_ > places_ && mirrored(place, tree) == places_) found[1] = others_;
  return found;
}

std::uint32_t Trees::top(std::uint32_t tree) const {
  return places_ == 0 ? others_ : mirrored(std::bit_floor(places_), tree);
}

std::uint32_t Trees::parent_in_first(std::uint32_t place) const {
  const std::uint32_t low = place & -place;
  return (place & low << 1) != 0 || place + low > places_ ? place - low : place + low;
}

std::array<std::uint32_t, 2> Trees::children_in_first(std::uint32_t place) const {
  std::uint32_t low = (place & -place) >> 1;
  if (low == 0) return {0, 0};
  const std::uint32_t left = place - low;
  while (low != 0 && place + low > places_) low >>= 1;
  return {left, low == 0 ? 0 : place + low};
}

/// Sanders, Speck and Träff, section 3: siblings differ, and a place's two ways in do.
Trees::Step Trees::descend(std::uint32_t place) const {
  if (place == std::bit_floor(places_)) return {0, 0, 0};
  const std::uint32_t parent = parent_in_first(place);
  const Step above = descend(parent);
  // A leaf has children in the other tree: its way there has the other colour, so this one has that of …
  const std::uint32_t colour = place % 2 == 1 ? descend(places_ + 1 - place).colour
                                              : above.colour ^ (places_ / 2 & 1) ^ (parent > place ? 1 : 0);
  return {parent, colour, after(above.start, above.colour, colour)};
}

/// From the place that has one child in the tree, in the colour that this child leaves.
Trees::Way Trees::free_way(std::uint32_t tree) const {
  if (places_ == 0) return {0, tree};
  const Step above = descend(places_);
  const std::uint32_t colour = 1 - descend(children_in_first(places_)[0]).colour;
  return {mirrored(places_, tree), start_in(tree, after(above.start, above.colour, colour))};
}

}  // namespace rdmc::relay
