#include "lib/replica/arguments.hpp"
#include "lib/replica/collectives.hpp"
#include "lib/replica/reduction.hpp"

namespace rdmc::replica::collectives {

Result<void> reduce_scatter(Exchange& exchange, std::span<std::byte> values, std::span<std::byte> mine,
                            std::size_t element, Combine combine, const Tuning& tuning) {
  if (auto done = check_equal_parts(exchange, values.size(), mine.size()); !done) return done;
  if (auto done = check_elements(mine.size(), element, combine); !done) return done;
  const PartLengths parts = PartLengths::equal(mine.size());
  const ReductionCosts costs{.size = exchange.size(), .bytes = values.size(), .start = tuning.start_bytes};
  // The last ring or collection of direct() is not needed here, so it is half as expensive.
  if (std::min(costs.whole_to_all(), costs.halves_to_all()) <= costs.direct() / 2) {
    if (auto done = all_reduce(exchange, values, element, combine, tuning); !done) return done;
  } else {
    const Reduction reduction{.element = element, .combine = combine, .block_bytes = tuning.block_bytes};
    if (auto done = combine_own_part(exchange, values, parts, reduction, tuning.direct_reduction_bytes);
        !done)
      return done;
  }
  copy_part(mine, parts.part(values, exchange.rank()));
  return {};
}

}  // namespace rdmc::replica::collectives
