#include <algorithm>

#include "lib/replica/arguments.hpp"
#include "lib/replica/binomial_tree.hpp"
#include "lib/replica/collectives.hpp"
#include "lib/replica/parts.hpp"
#include "lib/replica/request_window.hpp"
#include "lib/replica/scratch.hpp"

namespace rdmc::replica::collectives {

namespace {

/// A subtree that goes beyond the last rank has two pieces in a vector that is in the order of the ranks, and
/// the root and its child exchange them as two messages. Returns the length of the first piece.
std::size_t length_in_front(const BinomialTree::Subtree& subtree, std::size_t part, int size) {
  return std::min<std::size_t>(subtree.count, size - subtree.first) * part;
}

/// The pieces of a subtree in `all`. The second one is empty if the subtree does not go beyond the last rank.
template <typename Byte>
struct PiecesInRankOrder {
  std::span<Byte> first, second;
  PiecesInRankOrder(std::span<Byte> all, const BinomialTree::Subtree& subtree, std::size_t part, int size) {
    const std::size_t in_front = length_in_front(subtree, part, size);
    first = all.subspan(subtree.first * part, in_front);
    second = all.first(subtree.count * part - in_front);
  }
};

Result<void> gather_at_root(const BinomialTree& tree, RequestWindow& window, std::span<const std::byte> mine,
                            std::span<std::byte> all, int rank, int size) {
  for (int child = 0; child < tree.children(); ++child) {
    const PiecesInRankOrder<std::byte> pieces(all, tree.subtree_of_child(child), mine.size(), size);
    if (auto done = window.receive(pieces.first, tree.child(child)); !done) return done;
    if (pieces.second.empty()) continue;
    if (auto done = window.receive(pieces.second, tree.child(child)); !done) return done;
  }
  copy_part(all.subspan(rank * mine.size(), mine.size()), mine);
  return window.finish();
}

Result<void> gather_along_tree(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                               int root) {
  const BinomialTree tree(exchange, root);
  const std::size_t part = mine.size();
  Scratch scratch;
  RequestWindow window(exchange, Kind::gather);
  if (tree.is_root()) return gather_at_root(tree, window, mine, all, exchange.rank(), exchange.size());

  const BinomialTree::Subtree own = tree.own_subtree();
  std::span<const std::byte> parts = mine;
  if (own.count > 1) {
    const auto memory = scratch.reserve(own.count * part);
    if (!memory) return std::unexpected(memory.error());
    copy_part(memory->first(part), mine);
    for (int child = 0; child < tree.children(); ++child) {
      const BinomialTree::Subtree below = tree.subtree_of_child(child);
      const auto into = memory->subspan((below.position - own.position) * part, below.count * part);
      if (auto done = window.receive(into, tree.child(child)); !done) return done;
    }
    parts = *memory;
  }
  const std::size_t in_front =
      tree.is_child_of_root() ? length_in_front(own, part, exchange.size()) : parts.size();
  if (auto done = window.send(parts.first(in_front), tree.parent()); !done) return done;
  if (in_front < parts.size()) {
    if (auto done = window.send(parts.subspan(in_front), tree.parent()); !done) return done;
  }
  return window.finish();
}

Result<void> scatter_from_root(const BinomialTree& tree, RequestWindow& window,
                               std::span<const std::byte> all, std::span<std::byte> mine, int rank,
                               int size) {
  for (int child = tree.children(); child-- > 0;) {
    const PiecesInRankOrder<const std::byte> pieces(all, tree.subtree_of_child(child), mine.size(), size);
    if (auto done = window.send(pieces.first, tree.child(child)); !done) return done;
    if (pieces.second.empty()) continue;
    if (auto done = window.send(pieces.second, tree.child(child)); !done) return done;
  }
  copy_part(mine, all.subspan(rank * mine.size(), mine.size()));
  return window.finish();
}

Result<void> scatter_along_tree(Exchange& exchange, std::span<const std::byte> all, std::span<std::byte> mine,
                                int root) {
  const BinomialTree tree(exchange, root);
  const std::size_t part = mine.size();
  Scratch scratch;
  RequestWindow window(exchange, Kind::scatter);
  if (tree.is_root()) return scatter_from_root(tree, window, all, mine, exchange.rank(), exchange.size());

  const BinomialTree::Subtree own = tree.own_subtree();
  std::span<std::byte> parts = mine;
  if (own.count > 1) {
    const auto memory = scratch.reserve(own.count * part);
    if (!memory) return std::unexpected(memory.error());
    parts = *memory;
  }
  const std::size_t in_front =
      tree.is_child_of_root() ? length_in_front(own, part, exchange.size()) : parts.size();
  if (auto done = window.receive(parts.first(in_front), tree.parent()); !done) return done;
  if (in_front < parts.size()) {
    if (auto done = window.receive(parts.subspan(in_front), tree.parent()); !done) return done;
  }
  for (int child = tree.children(); child-- > 0;) {
    const BinomialTree::Subtree below = tree.subtree_of_child(child);
    const auto from = parts.subspan((below.position - own.position) * part, below.count * part);
    if (auto done = window.send(from, tree.child(child)); !done) return done;
  }
  if (auto done = window.wait_for(parts.first(part)); !done) return done;
  copy_part(mine, parts.first(part));
  return window.finish();
}

Result<void> gather_directly(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                             PartLengths lengths, int root) {
  RequestWindow window(exchange, Kind::gather);
  if (exchange.rank() != root) {
    if (mine.empty()) return {};
    if (auto done = window.send(mine, root); !done) return done;
    return window.finish();
  }
  for (int from = 0; from < exchange.size(); ++from) {
    const auto part = all.first(lengths.of(from));
    all = all.subspan(part.size());
    if (from == root) copy_part(part, mine);
    if (from == root || part.empty()) continue;
    if (auto done = window.receive(part, from); !done) return done;
  }
  return window.finish();
}

Result<void> scatter_directly(Exchange& exchange, std::span<const std::byte> all, std::span<std::byte> mine,
                              PartLengths lengths, int root) {
  RequestWindow window(exchange, Kind::scatter);
  if (exchange.rank() != root) {
    if (mine.empty()) return {};
    if (auto done = window.receive(mine, root); !done) return done;
    return window.finish();
  }
  for (int to = 0; to < exchange.size(); ++to) {
    const auto part = all.first(lengths.of(to));
    all = all.subspan(part.size());
    if (to == root) copy_part(mine, part);
    if (to == root || part.empty()) continue;
    if (auto done = window.send(part, to); !done) return done;
  }
  return window.finish();
}

/// Checks what only the root knows: the lengths, the whole vector, and its own part.
Result<void> check_lengths_at_root(const Exchange& exchange, std::span<const std::size_t> bytes,
                                   std::size_t all, std::size_t mine, int root) {
  if (auto done = check_root(exchange, root); !done) return done;
  if (exchange.rank() != root) return {};
  if (auto done = check_lengths(exchange, bytes, all); !done) return done;
  return check_own_length(bytes[static_cast<std::size_t>(root)], mine);
}

Result<void> check_equal_at_root(const Exchange& exchange, std::size_t all, std::size_t mine, int root) {
  if (auto done = check_root(exchange, root); !done) return done;
  if (exchange.rank() != root) return {};
  return check_equal_parts(exchange, all, mine);
}

}  // namespace

Result<void> gather(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all, int root,
                    const Tuning& tuning) {
  if (auto done = check_equal_at_root(exchange, all.size(), mine.size(), root); !done) return done;
  if (mine.empty()) return {};
  if (mine.size() <= tuning.tree_part_bytes) return gather_along_tree(exchange, mine, all, root);
  return gather_directly(exchange, mine, all, PartLengths::equal(mine.size()), root);
}

Result<void> gather(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                    std::span<const std::size_t> bytes, int root) {
  if (auto done = check_lengths_at_root(exchange, bytes, all.size(), mine.size(), root); !done) return done;
  return gather_directly(exchange, mine, all, PartLengths::listed(bytes), root);
}

Result<void> scatter(Exchange& exchange, std::span<const std::byte> all, std::span<std::byte> mine, int root,
                     const Tuning& tuning) {
  if (auto done = check_equal_at_root(exchange, all.size(), mine.size(), root); !done) return done;
  if (mine.empty()) return {};
  if (mine.size() <= tuning.tree_part_bytes) return scatter_along_tree(exchange, all, mine, root);
  return scatter_directly(exchange, all, mine, PartLengths::equal(mine.size()), root);
}

Result<void> scatter(Exchange& exchange, std::span<const std::byte> all, std::span<const std::size_t> bytes,
                     std::span<std::byte> mine, int root) {
  if (auto done = check_lengths_at_root(exchange, bytes, all.size(), mine.size(), root); !done) return done;
  return scatter_directly(exchange, all, mine, PartLengths::listed(bytes), root);
}

}  // namespace rdmc::replica::collectives
