#include <algorithm>

#include "lib/replica/arguments.hpp"
#include "lib/replica/collectives.hpp"
#include "lib/replica/reduction.hpp"
#include "lib/replica/request_window.hpp"
#include "lib/replica/scratch.hpp"

namespace rdmc::replica::collectives {

namespace {

/// In the step with distance d, a rank has the combined values of the last d ranks up to itself. It sends
/// them to the rank that is d above it, receives those of the rank that is d below it into `received`, and
/// calls `combine` for them. `sums` has the values of this rank, and `combine` must bring it up to date.
template <typename CombineReceived>
Result<void> scan_in_steps(Exchange& exchange, std::span<const std::byte> sums, std::span<std::byte> received,
                           CombineReceived combine) {
  const int rank = exchange.rank(), size = exchange.size();
  for (std::int64_t distance = 1; distance < size; distance *= 2) {
    const auto away = static_cast<int>(distance);
    RequestWindow window(exchange, Kind::scan);
    if (rank >= away) {
      if (auto done = window.receive(received, rank - away); !done) return done;
    }
    if (away < size - rank) {
      if (auto done = window.send(sums, rank + away); !done) return done;
    }
    if (auto done = window.finish(); !done) return done;
    if (rank >= away) combine();
  }
  return {};
}

}  // namespace

Result<void> scan(Exchange& exchange, std::span<std::byte> values, std::size_t element, Combine combine,
                  const Tuning& tuning) {
  if (auto done = check_elements(values.size(), element, combine); !done) return done;
  if (exchange.size() == 1) return {};
  const Reduction reduction{.element = element, .combine = combine, .block_bytes = tuning.block_bytes};
  Scratch scratch;
  const auto memory = scratch.reserve(std::min(reduction.block(), values.size()));
  if (!memory) return std::unexpected(memory.error());
  while (!values.empty()) {
    const auto block = values.first(std::min(values.size(), reduction.block()));
    const auto received = memory->first(block.size());
    if (auto done = scan_in_steps(exchange, block, received, [&] { reduction.apply(received, block); });
        !done)
      return done;
    values = values.subspan(block.size());
  }
  return {};
}

Result<void> exclusive_scan(Exchange& exchange, std::span<std::byte> values, std::size_t element,
                            Combine combine, const Tuning& tuning) {
  if (auto done = check_elements(values.size(), element, combine); !done) return done;
  if (exchange.size() == 1) return {};
  const Reduction reduction{.element = element, .combine = combine, .block_bytes = tuning.block_bytes};
  const std::size_t most = std::min(reduction.block(), values.size());
  Scratch scratch;
  const auto memory = scratch.reserve(2 * most);
  if (!memory) return std::unexpected(memory.error());
  while (!values.empty()) {
    const auto block = values.first(std::min(values.size(), reduction.block()));
    // `sums` includes the values of this rank, and `block` becomes the result, which does not.
    const auto sums = memory->first(block.size()), received = memory->subspan(most, block.size());
    copy_part(sums, block);
    bool is_first = true;
    const auto combine_received = [&] {
      if (is_first) {
        copy_part(block, received);
      } else {
        reduction.apply(received, block);
      }
      is_first = false;
      reduction.apply(received, sums);
    };
    if (auto done = scan_in_steps(exchange, sums, received, combine_received); !done) return done;
    values = values.subspan(block.size());
  }
  return {};
}

}  // namespace rdmc::replica::collectives
