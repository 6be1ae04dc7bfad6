#include <array>
#include <utility>

#include "lib/replica/arguments.hpp"
#include "lib/replica/collectives.hpp"
#include "lib/replica/reduction.hpp"
#include "lib/replica/request_window.hpp"
#include "lib/replica/ring.hpp"
#include "lib/replica/scratch.hpp"

namespace rdmc::replica::collectives {

namespace {

Result<void> send_whole(Exchange& exchange, std::span<const std::byte> values, int to) {
  RequestWindow window(exchange, Kind::all_reduce);
  if (auto done = window.send(values, to); !done) return done;
  return window.finish();
}

Result<void> receive_whole(Exchange& exchange, std::span<std::byte> values, int from) {
  RequestWindow window(exchange, Kind::all_reduce);
  if (auto done = window.receive(values, from); !done) return done;
  return window.finish();
}

/// Combines the values of each pair at its last rank, lets the last ranks of all units call `reduce_units`,
/// and sends the result to the first ranks of the pairs.
template <typename ReduceUnits>
Result<void> reduce_with_pairs(Exchange& exchange, std::span<std::byte> values, const Reduction& reduction,
                               ReduceUnits reduce_units) {
  const Grouping grouping(exchange.size());
  const int rank = exchange.rank(), unit = grouping.unit_of(rank);
  if (!grouping.is_pair(unit)) return reduce_units(grouping);
  const int first = grouping.first_rank(unit), last = grouping.last_rank(unit);
  if (rank == first) {
    if (auto done = trade_and_combine(exchange, Kind::all_reduce, values, {}, last, reduction); !done)
      return done;
    return receive_whole(exchange, values, last);
  }
  if (auto done = trade_and_combine(exchange, Kind::all_reduce, {}, values, first, reduction); !done)
    return done;
  if (auto done = reduce_units(grouping); !done) return done;
  return send_whole(exchange, values, first);
}

/// Recursive doubling: units exchange their whole vectors, with each level of the grouping. Both combine the
/// same values in the same order, so both have the same bits.
Result<void> double_units(Exchange& exchange, std::span<std::byte> values, const Reduction& reduction,
                          const Grouping& grouping) {
  const int unit = grouping.unit_of(exchange.rank());
  Scratch scratch;
  const auto memory = scratch.reserve(values.size());
  if (!memory) return std::unexpected(memory.error());
  std::span<std::byte> own = values, other = *memory;
  for (int width = 1; width < grouping.units(); width *= 2) {
    const int peer = grouping.last_rank(unit ^ width);
    if (auto done = send_and_receive(exchange, Kind::all_reduce, own, peer, other, peer); !done) return done;
    if (peer < exchange.rank()) {
      reduction.apply(other, own);
    } else {
      reduction.apply(own, other);
      std::swap(own, other);
    }
  }
  copy_part(values, own);
  return {};
}

/// Recursive halving: with each level of the grouping, a unit gives half of its values to another unit and
/// combines the other half. Then recursive doubling collects the halves in the opposite order.
Result<void> halve_and_double_units(Exchange& exchange, std::span<std::byte> values,
                                    const Reduction& reduction, const Grouping& grouping) {
  struct Level {
    int peer;
    std::span<std::byte> kept, given;
  };
  std::array<Level, 32> levels;
  const int unit = grouping.unit_of(exchange.rank());
  auto own = values;
  for (int level = 0; level < grouping.depth(); ++level) {
    const int width = 1 << level;
    const PartLengths halves = reduction.cut(own.size(), 2);
    const int half = (unit & width) == 0 ? 0 : 1;
    levels[level] = {grouping.last_rank(unit ^ width), halves.part(own, half), halves.part(own, 1 - half)};
    own = levels[level].kept;
    if (auto done = trade_and_combine(exchange, Kind::all_reduce, levels[level].given, own,
                                      levels[level].peer, reduction);
        !done)
      return done;
  }
  for (int level = grouping.depth(); level-- > 0;) {
    const auto& [peer, kept, given] = levels[level];
    if (auto done = send_and_receive(exchange, Kind::all_reduce, kept, peer, given, peer); !done) return done;
  }
  return {};
}

Result<void> reduce_parts_and_gather(Exchange& exchange, std::span<std::byte> values,
                                     const Reduction& reduction, const Tuning& tuning) {
  const PartLengths parts = reduction.cut(values.size(), exchange.size());
  if (auto done = combine_own_part(exchange, values, parts, reduction, tuning.direct_reduction_bytes); !done)
    return done;
  return gather_in_ring(exchange, values, parts, tuning.block_bytes);
}

}  // namespace

Result<void> all_reduce(Exchange& exchange, std::span<std::byte> values, std::size_t element, Combine combine,
                        const Tuning& tuning) {
  if (auto done = check_elements(values.size(), element, combine); !done) return done;
  if (values.empty() || exchange.size() == 1) return {};
  const Reduction reduction{.element = element, .combine = combine, .block_bytes = tuning.block_bytes};
  const ReductionCosts costs{.size = exchange.size(), .bytes = values.size(), .start = tuning.start_bytes};
  const std::uint64_t by_halves = std::min(costs.halves_to_all(), costs.direct());
  if (values.size() <= tuning.whole_vector_bytes && costs.whole_to_all() <= by_halves)
    return reduce_with_pairs(exchange, values, reduction, [&](const Grouping& grouping) {
      return double_units(exchange, values, reduction, grouping);
    });
  if (costs.halves_to_all() <= costs.direct())
    return reduce_with_pairs(exchange, values, reduction, [&](const Grouping& grouping) {
      return halve_and_double_units(exchange, values, reduction, grouping);
    });
  return reduce_parts_and_gather(exchange, values, reduction, tuning);
}

}  // namespace rdmc::replica::collectives
