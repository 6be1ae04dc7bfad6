#include "dataplane/relay/two_trees.hpp"

namespace rdmc::relay {

TwoTrees::TwoTrees(Rank rank, std::uint32_t members, const Racks& sites) : members_(members), sites_(sites) {
  const std::array one{Rack{.head = 0, .members = members, .start = 0}};
  const std::span<const Rack> all = sites.is_known() ? sites.all() : one;
  const std::size_t own = sites.is_known() ? sites.index_of(value_of(rank)) : 0;
  std::optional<Site> before, site, behind;
  std::uint64_t start = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_first = i == 0, is_last = i + 1 == all.size();
    const std::uint32_t with_root = all[i].members + (is_first ? 0 : 1);
    const Site next{all[i].head - (is_first ? 0 : 1), start, Trees(with_root)};
    if (i + 1 == own) before = next;
    if (i == own) site = next;
    if (i == own + 1) behind = next;
    if (with_root > 1) {
      const std::uint64_t depth = depth_of(with_root);
      fill_ = std::max(fill_, start + 2 * depth - 2);
      slots_ = std::max(slots_, 2 * depth - (is_last ? 1 : 0));
    }
    start += next.trees.way_on(0).start;
  }
  const std::uint32_t position = value_of(rank) - site->root;
  in_ = into(position, *site, before);
  out_ = out_of(position, *site, before, behind);
}

TwoTrees::Edges TwoTrees::into(std::uint32_t position, const Site& site, const std::optional<Site>& before) {
  if (position == 0) return {};
  Edges edges;
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    const Trees::Way way = site.trees.way(position, tree);
    const bool enters = way.from == 0 && before;
    edges[tree] = Edge{.peer = enters ? before->root + before->trees.way_on(tree).from : site.root + way.from,
                       .start = site.start + way.start,
                       .parity = tree};
  }
  edges[edges[0]->start < edges[1]->start ? 0 : 1]->is_first = true;
  return edges;
}

TwoTrees::Edges TwoTrees::out_of(std::uint32_t position, const Site& site, const std::optional<Site>& before,
                                 const std::optional<Site>& behind) {
  Edges edges;
  std::size_t count = 0;
  const auto add = [&](std::uint32_t child, std::uint32_t tree, const Site& to,
                       const std::optional<Site>& before_it) {
    if (child == 0) return;
    edges[count] = into(child, to, before_it)[tree];
    edges[count++]->peer = to.root + child;
  };
  for (std::uint32_t tree = 0; tree < 2; ++tree) {
    for (const std::uint32_t child : site.trees.children(position, tree)) add(child, tree, site, before);
    if (behind && site.trees.way_on(tree).from == position) add(behind->trees.top(tree), tree, *behind, site);
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

/// Returns the block that moves over an edge in a step. The single block of a one-block message is in both
/// trees, and each member receives it only over the edge of its first block.
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
