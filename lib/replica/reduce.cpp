#include "lib/replica/arguments.hpp"
#include "lib/replica/collectives.hpp"
#include "lib/replica/reduction.hpp"
#include "lib/replica/request_window.hpp"

namespace rdmc::replica::collectives {

namespace {

/// The reduction of whole vectors along the tree of the grouping. Of each group of units, one rank holds the
/// combined values: the root, if it belongs to the group, and otherwise the last rank. So the root has the
/// result after the last level, whichever rank it is. The last rank gets the values of lower ranks, so it can
/// combine them without a copy.
Result<void> reduce_whole(Exchange& exchange, std::span<std::byte> values, const Reduction& reduction,
                          int root) {
  const Grouping grouping(exchange.size());
  const int rank = exchange.rank(), unit = grouping.unit_of(rank), root_unit = grouping.unit_of(root);
  const auto holder = [&](int first, int count) {
    const bool has_root = root_unit >= first && root_unit < first + count;
    return has_root ? root : grouping.last_rank(first + count - 1);
  };
  const auto give_to = [&](int peer) {
    return trade_and_combine(exchange, Kind::reduce, values, {}, peer, reduction);
  };
  const auto take_from = [&](int peer) {
    return trade_and_combine(exchange, Kind::reduce, {}, values, peer, reduction);
  };

  if (grouping.is_pair(unit)) {
    const int other =
        rank == grouping.first_rank(unit) ? grouping.last_rank(unit) : grouping.first_rank(unit);
    if (holder(unit, 1) != rank) return give_to(other);
    if (auto done = take_from(other); !done) return done;
  }
  for (int width = 1; width < grouping.units(); width *= 2) {
    const int own = unit - unit % width, sibling = own ^ width;
    const int next = holder(std::min(own, sibling), 2 * width);
    if (next != rank) return give_to(next);
    if (auto done = take_from(holder(sibling, width)); !done) return done;
  }
  return {};
}

/// Each rank combines its part of the vector, and sends it to the root.
Result<void> reduce_by_parts(Exchange& exchange, std::span<std::byte> values, const Reduction& reduction,
                             int root, const Tuning& tuning) {
  const PartLengths parts = reduction.cut(values.size(), exchange.size());
  if (auto done = combine_own_part(exchange, values, parts, reduction, tuning.direct_reduction_bytes); !done)
    return done;
  RequestWindow window(exchange, Kind::reduce);
  for (int from = 0; from < exchange.size(); ++from) {
    const auto part = parts.part(values, from);
    if (part.empty() || from == root) continue;
    if (exchange.rank() == root) {
      if (auto done = window.receive(part, from); !done) return done;
    } else if (exchange.rank() == from) {
      if (auto done = window.send(part, root); !done) return done;
    }
  }
  return window.finish();
}

}  // namespace

Result<void> reduce(Exchange& exchange, std::span<std::byte> values, std::size_t element, Combine combine,
                    int root, const Tuning& tuning) {
  if (auto done = check_root(exchange, root); !done) return done;
  if (auto done = check_elements(values.size(), element, combine); !done) return done;
  if (values.empty() || exchange.size() == 1) return {};
  const Reduction reduction{.element = element, .combine = combine, .block_bytes = tuning.block_bytes};
  const ReductionCosts costs{.size = exchange.size(), .bytes = values.size(), .start = tuning.start_bytes};
  if (costs.whole_to_root() <= costs.direct()) return reduce_whole(exchange, values, reduction, root);
  return reduce_by_parts(exchange, values, reduction, root, tuning);
}

}  // namespace rdmc::replica::collectives
