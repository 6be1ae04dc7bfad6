#include <algorithm>

#include "lib/replica/arguments.hpp"
#include "lib/replica/collectives.hpp"
#include "lib/replica/parts.hpp"
#include "lib/replica/request_window.hpp"
#include "lib/replica/ring.hpp"

namespace rdmc::replica::collectives {

namespace {

/// The sum of the lengths of `count` parts from that of rank `first` on. After the last rank follows rank 0.
std::size_t length_of(const Exchange& exchange, PartLengths lengths, int first, int count) {
  std::size_t sum = 0;
  for (int index = 0; index < count; ++index) sum += lengths.of(rank_above(exchange, first, index));
  return sum;
}

/// Bruck's algorithm. `all` first gets the parts in the order of the ranks, counted from this rank. With each
/// step, the number of parts doubles. Finally the parts are rotated into their places.
Result<void> gather_by_doubling(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                                PartLengths lengths) {
  const int rank = exchange.rank(), size = exchange.size();
  copy_part(all.first(mine.size()), mine);
  std::size_t held_bytes = mine.size();
  for (int held = 1; held < size;) {
    const int more = std::min(held, size - held);
    const int from = rank_above(exchange, rank, held);
    const auto sent = all.first(length_of(exchange, lengths, rank, more));
    const auto received = all.subspan(held_bytes, length_of(exchange, lengths, from, more));
    if (auto done = send_and_receive(exchange, Kind::all_gather, sent, rank_below(exchange, rank, held),
                                     received, from);
        !done)
      return done;
    held += more;
    held_bytes += received.size();
  }
  const std::size_t until_last_rank = length_of(exchange, lengths, rank, size - rank);
  std::ranges::rotate(all, all.begin() + static_cast<std::ptrdiff_t>(until_last_rank));
  return {};
}

Result<void> gather_at_all(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                           PartLengths lengths, const Tuning& tuning) {
  if (all.empty()) return {};
  const auto size = static_cast<std::size_t>(exchange.size());
  if (all.size() / size < tuning.start_bytes) return gather_by_doubling(exchange, mine, all, lengths);
  copy_part(lengths.part(all, exchange.rank()), mine);
  return gather_in_ring(exchange, all, lengths, tuning.block_bytes);
}

}  // namespace

Result<void> all_gather(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                        const Tuning& tuning) {
  if (auto done = check_equal_parts(exchange, all.size(), mine.size()); !done) return done;
  return gather_at_all(exchange, mine, all, PartLengths::equal(mine.size()), tuning);
}

Result<void> all_gather(Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                        std::span<const std::size_t> bytes, const Tuning& tuning) {
  if (auto done = check_lengths(exchange, bytes, all.size()); !done) return done;
  if (auto done = check_own_length(bytes[static_cast<std::size_t>(exchange.rank())], mine.size()); !done)
    return done;
  return gather_at_all(exchange, mine, all, PartLengths::listed(bytes), tuning);
}

}  // namespace rdmc::replica::collectives
