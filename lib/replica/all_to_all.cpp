#include "lib/replica/arguments.hpp"
#include "lib/replica/collectives.hpp"
#include "lib/replica/parts.hpp"
#include "lib/replica/request_window.hpp"
#include "lib/replica/scratch.hpp"

namespace rdmc::replica::collectives {

namespace {

/// With so few ranks, direct messages need hardly more steps than forwarded ones.
constexpr int kMostRanksDirect = 4;

/// Goes from part to part of a vector. The next part is found in O(1) time, also if the lengths are listed.
template <typename Byte>
class PartsInOrder {
 public:
  PartsInOrder(std::span<Byte> all, PartLengths lengths, int rank)
      : all_(all), lengths_(lengths), rank_(rank), begin_(lengths.before(rank)) {}
  std::span<Byte> part() const { return all_.subspan(begin_, lengths_.of(rank_)); }
  int rank() const { return rank_; }
  void go_up(int size) {
    begin_ += lengths_.of(rank_++);
    if (rank_ < size) return;
    rank_ = 0;
    begin_ = 0;
  }
  void go_down(int size) {
    if (rank_ == 0) {
      rank_ = size;
      begin_ = all_.size();
    }
    begin_ -= lengths_.of(--rank_);
  }

 private:
  std::span<Byte> all_;
  PartLengths lengths_;
  int rank_;
  std::size_t begin_;
};

/// In step i, each rank sends to the rank that is i above it, and receives from the rank that is i below it.
Result<void> exchange_directly(Exchange& exchange, std::span<const std::byte> to, PartLengths to_lengths,
                               std::span<std::byte> from, PartLengths from_lengths) {
  const int size = exchange.size();
  PartsInOrder sends(to, to_lengths, exchange.rank());
  PartsInOrder receives(from, from_lengths, exchange.rank());
  copy_part(receives.part(), sends.part());
  RequestWindow window(exchange, Kind::all_to_all, RequestWindow::kFewSends);
  for (int step = 1; step < size; ++step) {
    sends.go_up(size);
    receives.go_down(size);
    if (!receives.part().empty()) {
      if (auto done = window.receive(receives.part(), receives.rank()); !done) return done;
    }
    if (!sends.part().empty()) {
      if (auto done = window.send(sends.part(), sends.rank()); !done) return done;
    }
  }
  return window.finish();
}

/// Bruck's algorithm. Part i of `parts` must go to the rank that is i above this rank. In step k, all parts
/// whose number has bit k set go 2^k ranks further. So after the last step, part i is from the rank that is
/// i below this rank.
Result<void> forward_parts(Exchange& exchange, std::span<std::byte> parts, std::size_t part,
                           std::span<std::byte> packed, std::span<std::byte> received) {
  const int rank = exchange.rank(), size = exchange.size();
  for (std::int64_t distance = 1; distance < size; distance *= 2) {
    std::size_t bytes = 0;
    for (int number = 0; number < size; ++number) {
      if ((number & distance) == 0) continue;
      copy_part(packed.subspan(bytes, part), parts.subspan(number * part, part));
      bytes += part;
    }
    const auto away = static_cast<int>(distance);
    if (auto done = send_and_receive(exchange, Kind::all_to_all, packed.first(bytes),
                                     rank_above(exchange, rank, away), received.first(bytes),
                                     rank_below(exchange, rank, away));
        !done)
      return done;
    bytes = 0;
    for (int number = 0; number < size; ++number) {
      if ((number & distance) == 0) continue;
      copy_part(parts.subspan(number * part, part), received.subspan(bytes, part));
      bytes += part;
    }
  }
  return {};
}

Result<void> exchange_by_forwarding(Exchange& exchange, std::span<const std::byte> to,
                                    std::span<std::byte> from, std::size_t part) {
  const int rank = exchange.rank(), size = exchange.size();
  Scratch scratch;
  const auto memory = scratch.reserve(2 * to.size());
  if (!memory) return std::unexpected(memory.error());
  const auto parts = memory->first(to.size());
  const std::size_t half = static_cast<std::size_t>(size) / 2 * part;
  for (int number = 0; number < size; ++number)
    copy_part(parts.subspan(number * part, part),
              to.subspan(rank_above(exchange, rank, number) * part, part));
  if (auto done = forward_parts(exchange, parts, part, memory->subspan(to.size(), half),
                                memory->subspan(to.size() + half, half));
      !done)
    return done;
  for (int number = 0; number < size; ++number)
    copy_part(from.subspan(rank_below(exchange, rank, number) * part, part),
              parts.subspan(number * part, part));
  return {};
}

}  // namespace

Result<void> all_to_all(Exchange& exchange, std::span<const std::byte> to, std::span<std::byte> from,
                        const Tuning& tuning) {
  const std::size_t part = to.size() / static_cast<std::size_t>(exchange.size());
  if (auto done = check_equal_parts(exchange, to.size(), part); !done) return done;
  if (auto done = check_equal_parts(exchange, from.size(), part); !done) return done;
  if (part == 0) return {};
  if (part <= tuning.forwarded_part_bytes && exchange.size() > kMostRanksDirect)
    return exchange_by_forwarding(exchange, to, from, part);
  return exchange_directly(exchange, to, PartLengths::equal(part), from, PartLengths::equal(part));
}

Result<void> all_to_all(Exchange& exchange, std::span<const std::byte> to,
                        std::span<const std::size_t> to_bytes, std::span<std::byte> from,
                        std::span<const std::size_t> from_bytes) {
  if (auto done = check_lengths(exchange, to_bytes, to.size()); !done) return done;
  if (auto done = check_lengths(exchange, from_bytes, from.size()); !done) return done;
  const auto rank = static_cast<std::size_t>(exchange.rank());
  if (auto done = check_own_length(to_bytes[rank], from_bytes[rank]); !done) return done;
  return exchange_directly(exchange, to, PartLengths::listed(to_bytes), from,
                           PartLengths::listed(from_bytes));
}

}  // namespace rdmc::replica::collectives
