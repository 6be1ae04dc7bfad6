// The binomial tree along which short messages are broadcast, gathered and scattered. The positions in the
// tree are the ranks, counted from the root. A subtree has consecutive positions, so its parts are
// consecutive in memory. A plain value.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "lib/replica/arguments.hpp"
#include "lib/replica/exchange.hpp"

namespace rdmc::replica::collectives {

class BinomialTree {
 public:
  /// Precondition: `root` is a rank of the exchange. The exchange must exist longer than the tree.
  BinomialTree(const Exchange& exchange, int root)
      : exchange_(exchange),
        root_(root),
        size_(static_cast<std::uint32_t>(exchange.size())),
        position_(static_cast<std::uint32_t>(rank_below(exchange, exchange.rank(), root))) {}

  bool is_root() const { return position_ == 0; }
  int parent() const { return rank_of(position_ & (position_ - 1)); }
  bool is_child_of_root() const { return std::has_single_bit(position_); }

  /// The number of children. A child with a higher number has a larger subtree.
  int children() const {
    const auto above = static_cast<int>(std::bit_width(size_ - 1 - position_));
    return is_root() ? above : std::min(above, std::countr_zero(position_));
  }
  int child(int number) const { return rank_of(position_of_child(number)); }

  /// The positions of a subtree: `count` ranks from the rank `first` on. They may go beyond the last rank and
  /// continue at rank 0.
  struct Subtree {
    std::uint32_t position = 0, count = 0;
    int first = 0;
  };
  Subtree own_subtree() const {
    return subtree(position_, is_root() ? size_ : std::uint32_t{1} << std::countr_zero(position_));
  }
  Subtree subtree_of_child(int number) const {
    return subtree(position_of_child(number), std::uint32_t{1} << number);
  }

 private:
  std::uint32_t position_of_child(int number) const { return position_ + (std::uint32_t{1} << number); }
  Subtree subtree(std::uint32_t position, std::uint32_t most) const {
    return {position, std::min(most, size_ - position), rank_of(position)};
  }
  int rank_of(std::uint32_t position) const {
    return rank_above(exchange_, root_, static_cast<int>(position));
  }

  const Exchange& exchange_;
  int root_;
  std::uint32_t size_;
  std::uint32_t position_;
};

}  // namespace rdmc::replica::collectives
