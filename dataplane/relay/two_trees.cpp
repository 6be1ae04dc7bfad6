#include "dataplane/relay/two_trees.hpp"

namespace rdmc::relay {

namespace {

/// The trees over an even number of places, 1 … places. In the first a place's height is that of its lowest
/// set bit, so odd places are its leaves; in the second place i stands where places + 1 - i stands in the
/// first. One more member, if there is one, is a leaf of both, where each has one child too few. Place 0 is
/// the root, above both. Ways have one of two colours, the parity of the steps in which they carry blocks: no
/// two ways into or out of a place have the same.
class Trees {
 public:
  explicit Trees(std::uint32_t members) : others_(members - 1), places_(others_ & ~1U) {}

  struct Way {
    std::uint32_t from;
    std::uint64_t start;  // the first step, of the way's colour
  };

  /// To place `to` (1 … others) in tree 0 or 1.
  Way way(std::uint32_t to, std::uint32_t tree) const {
    if (to > places_) return to_last(tree);
    const Step step = descend(mirrored(to, tree));
    return {step.parent == 0 ? 0 : mirrored(step.parent, tree), start_of(step, tree)};
  }

  /// The tree in which a place has children, and these: 0 for none.
  std::array<std::uint32_t, 2> children(std::uint32_t place, std::uint32_t tree) const {
    if (place > places_) return {0, 0};
    auto found = children_in_first(mirrored(place, tree));
    for (std::uint32_t& child : found)
      if (child != 0) child = mirrored(child, tree);
    // The place of the most one in its tree lacks a right child.
    if (others_ > places_ && mirrored(place, tree) == places_) found[1] = others_;
    return found;
  }

  std::uint32_t top(std::uint32_t tree) const {
    return places_ == 0 ? 1 : mirrored(std::bit_floor(places_), tree);
  }

 private:
  /// How a block comes to a place of the first tree: its way's colour and first step.
  struct Step {
    std::uint32_t parent;
    std::uint32_t colour;
    std::uint64_t start;
  };

  std::uint32_t mirrored(std::uint32_t place, std::uint32_t tree) const {
    return tree == 0 ? place : places_ + 1 - place;
  }

  std::uint32_t parent_in_first(std::uint32_t place) const {
    const std::uint32_t low = place & -place;
    return (place & low << 1) != 0 || place + low > places_ ? place - low : place + low;
  }

  std::array<std::uint32_t, 2> children_in_first(std::uint32_t place) const {
    std::uint32_t low = (place & -place) >> 1;
    if (low == 0) return {0, 0};
    const std::uint32_t left = place - low;
    while (low != 0 && place + low > places_) low >>= 1;
    return {left, low == 0 ? 0 : place + low};
  }

  /// Sanders, Speck and Träff, section 3: siblings differ, and a place's two ways in do.
  Step descend(std::uint32_t place) const {
    if (place == std::bit_floor(places_)) return {0, 0, 0};
    const std::uint32_t parent = parent_in_first(place);
    const Step above = descend(parent);
    // A leaf has children in the other tree: its way there has the other colour, so this one has that of …
    const std::uint32_t colour = place % 2 == 1 ? descend(places_ + 1 - place).colour
                                                : above.colour ^ (places_ / 2 & 1) ^ (parent > place ? 1 : 0);
    return {parent, colour, after(above, colour)};
  }
  static std::uint64_t after(const Step& above, std::uint32_t colour) {
    return above.start + (above.colour == colour ? 2 : 1);
  }
  /// In the second tree all colours are the other, and all is one step later.
  static std::uint64_t start_of(const Step& step, std::uint32_t tree) { return step.start + tree; }

  Way to_last(std::uint32_t tree) const {
    if (places_ == 0) return {0, tree};
    const Step above = descend(places_);
    const Step sibling = descend(children_in_first(places_)[0]);
    const Step own{places_, 1 - sibling.colour, after(above, 1 - sibling.colour)};
    return {mirrored(places_, tree), start_of(own, tree)};
  }

  std::uint32_t others_;
  std::uint32_t places_;
};

}  // namespace

TwoTrees::TwoTrees(Rank rank, std::uint32_t members) : rank_(value_of(rank)), members_(members) {
  if (members == 1) return;
  in_ = into(rank_);
  out_ = out_of(rank_);
}

TwoTrees::Edges TwoTrees::into(std::uint32_t rank) const {
  if (rank == 0) return {};
  const Trees trees(members_);
  Edges edges;
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    const Trees::Way way = trees.way(rank, tree);
    edges[tree] = Edge{.peer = way.from, .start = way.start, .parity = tree};
  }
  edges[edges[0]->start < edges[1]->start ? 0 : 1]->is_first = true;
  return edges;
}

TwoTrees::Edges TwoTrees::out_of(std::uint32_t rank) const {
  const Trees trees(members_);
  Edges edges;
  std::size_t count = 0;
  const auto add = [&](std::uint32_t child, std::uint32_t tree) {
    if (child == 0) return;
    edges[count] = into(child)[tree];
    edges[count++]->peer = child;
  };
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    if (rank == 0) {
      add(trees.top(tree), tree);
      continue;
    }
    for (const std::uint32_t child : trees.children(rank, tree)) add(child, tree);
  }
  return edges;
}

std::vector<Rank> TwoTrees::peers(const Edges& edges) {
  std::vector<Rank> found;
  for (const auto& edge : edges)
    if (edge) found.push_back(Rank{edge->peer});
  sort_and_unite(found);
  return found;
}

/// A message of one block is in both trees, and each member takes it from where its first block comes from.
std::optional<std::uint64_t> TwoTrees::block_on(const Edge& edge, std::uint64_t step, std::uint64_t blocks) {
  if (step < edge.start || (step - edge.start) % 2 != 0) return std::nullopt;
  if (blocks == 1)
    return edge.is_first && step == edge.start ? std::optional<std::uint64_t>(0) : std::nullopt;
  return before(step - edge.start + edge.parity, blocks);
}

std::optional<std::uint64_t> TwoTrees::next_on(const Edge& edge, std::uint64_t step, std::uint64_t blocks) {
  const std::uint64_t next = step <= edge.start ? edge.start : next_congruent(step, edge.start % 2, 2);
  return block_on(edge, next, blocks) ? std::optional(next) : std::nullopt;
}

std::optional<Transfer> TwoTrees::transfer_on(const Edges& edges, std::uint64_t step, std::uint64_t blocks) {
  for (const auto& edge : edges) {
    if (!edge) continue;
    if (const auto block = block_on(*edge, step, blocks)) return Transfer{Rank{edge->peer}, *block};
  }
  return std::nullopt;
}

StepTransfers TwoTrees::at(std::uint64_t step, std::uint64_t blocks) const {
  return {transfer_on(out_, step, blocks), transfer_on(in_, step, blocks)};
}

std::optional<Transfer> TwoTrees::first_receive(std::uint64_t blocks) const {
  for (const auto& edge : in_)
    if (edge && edge->is_first) return Transfer{Rank{edge->peer}, std::min(edge->parity, blocks - 1)};
  return std::nullopt;
}

std::optional<std::uint64_t> TwoTrees::next_receive_from(Rank source, std::uint64_t step,
                                                         std::uint64_t blocks) const {
  std::optional<std::uint64_t> first;
  for (const auto& edge : in_) {
    if (!edge || Rank{edge->peer} != source) continue;
    const auto next = next_on(*edge, step, blocks);
    if (next && (!first || *next < *first)) first = next;
  }
  return first;
}

std::optional<std::uint64_t> TwoTrees::next_send(std::uint64_t step, std::uint64_t end,
                                                 std::uint64_t blocks) const {
  std::uint64_t first = end;
  for (const auto& edge : out_) {
    if (!edge) continue;
    if (const auto next = next_on(*edge, step, blocks)) first = std::min(first, *next);
  }
  return before(first, end);
}

Pace TwoTrees::pace() const {
  Pace pace{.stride = 1, .lead = 0, .lag = 0};
  bool any = false;
  for (const auto& edge : out_) {
    if (!edge) continue;
    const std::uint64_t after = edge->start - edge->parity;
    pace.lead = any ? std::min(pace.lead, after) : after;
    pace.lag = std::max(pace.lag, after);
    any = true;
  }
  return pace;
}

}  // namespace rdmc::relay
