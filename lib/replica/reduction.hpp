// The parts of which the reductions are made: the grouping of the ranks, the exchange of values with one
// other rank, and the reduction of the parts of a vector at one rank each. Plain values and functions; the
// memory belongs to the caller.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include <rdmc/replica.hpp>

#include "dataplane/base/error.hpp"
#include "lib/replica/exchange.hpp"
#include "lib/replica/parts.hpp"
#include "lib/replica/request_window.hpp"

namespace rdmc::replica::collectives {

/// The grouping of all reductions. If the number of ranks is not a power of two, the first ranks form pairs,
/// so that the number of units (pairs and single ranks) is the largest power of two below it. Neighbouring
/// units are combined into one, until a single unit is left. A unit always has consecutive ranks.
class Grouping {
 public:
  /// Precondition: size >= 1.
  explicit Grouping(int size)
      : units_(static_cast<int>(std::bit_floor(static_cast<unsigned>(size)))), pairs_(size - units_) {}

  int units() const { return units_; }
  bool has_pairs() const { return pairs_ > 0; }
  /// The number of steps of a reduction in which each unit sends or receives once in each step.
  int depth() const { return std::countr_zero(static_cast<unsigned>(units_)); }

  int unit_of(int rank) const { return rank < 2 * pairs_ ? rank / 2 : rank - pairs_; }
  bool is_pair(int unit) const { return unit < pairs_; }
  int first_rank(int unit) const { return unit < pairs_ ? 2 * unit : unit + pairs_; }
  int last_rank(int unit) const { return unit < pairs_ ? 2 * unit + 1 : unit + pairs_; }

 private:
  int units_;
  int pairs_;
};

/// Describes a reduction: the length of an element, the function that combines elements, and the largest
/// length of a block. The lengths are in bytes.
struct Reduction {
  std::size_t element = 1;
  Combine combine = nullptr;
  std::size_t block_bytes = 1;

  /// Cuts a vector into parts of whole elements.
  PartLengths cut(std::size_t bytes, int parts) const {
    return PartLengths::of_elements(bytes / element, element, parts);
  }
  /// The length of a block: a whole number of elements, and at least one.
  std::size_t block() const { return std::max(block_bytes / element, std::size_t{1}) * element; }
  /// to = from (op) to. The values of `from` are those of lower ranks.
  void apply(std::span<const std::byte> from, std::span<std::byte> to) const {
    if (!to.empty()) combine(from.data(), to.data(), to.size() / element);
  }
};

/// Sends `give` to `peer`, and combines what `peer` gives with `keep`. The result is in `keep`. Both ranks
/// call it: the length of `keep` at one rank is the length of `give` at the other rank, and may be 0. `give`
/// and `keep` must not overlap. Receives in blocks, so the scratch memory is at most four blocks.
Result<void> trade_and_combine(Exchange& exchange, Kind kind, std::span<const std::byte> give,
                               std::span<std::byte> keep, int peer, const Reduction& reduction);

/// Combines part i of `values` of all ranks at rank i. The result is in the own part of `values`; the other
/// parts do not change. The first part must be the longest one. The values are sent directly to the rank that
/// combines them. The scratch memory is at most `scratch_bytes`, or two elements for each rank if that is
/// more, and a pointer for each rank.
Result<void> combine_own_part(Exchange& exchange, std::span<std::byte> values, const PartLengths& parts,
                              const Reduction& reduction, std::size_t scratch_bytes);

/// The time that the algorithms of a reduction take, as the number of bytes that a rank could send in this
/// time. `start` is Tuning::start_bytes.
struct ReductionCosts {
  int size;
  std::uint64_t bytes;
  std::uint64_t start;
  /// Whole vectors, once for each level of the grouping.
  std::uint64_t whole_to_root() const;
  std::uint64_t whole_to_all() const;
  /// Recursive halving and doubling.
  std::uint64_t halves_to_all() const;
  /// combine_own_part(), and then the collection of the parts.
  std::uint64_t direct() const;
};

}  // namespace rdmc::replica::collectives
