// One direction of a cable: datagrams leave it one after the other at its rate, from a queue that is finite,
// and arrive in the order in which they left. Kept in picoseconds, so that a rate is exact over millions of
// datagrams.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "dataplane/base/random.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::sim {

struct LinkOptions {
  std::uint64_t bits_per_second = 10'000'000'000;
  Duration delay = microseconds(5);     ///< propagation
  Duration jitter{};                    ///< added, uniform up to this; order is kept
  std::uint64_t queue_bytes = 1 << 20;  ///< waiting to be sent; beyond it the newest is dropped
  std::uint64_t mark_bytes = 0;         ///< ECN: mark CE when more than this waits; 0 = never
};

class Link {
 public:
  explicit Link(const LinkOptions& options)
      : options_(options), picoseconds_per_byte_(8e12 / static_cast<double>(options.bits_per_second)) {}

  struct Passage {
    Time arrival;         ///< of the last bit at the far end
    bool marked = false;  ///< met a queue long enough to be marked
  };

  /// Puts a datagram of so many bytes on the wire; nullopt: no room in the queue.
  std::optional<Passage> pass(Time now, std::uint64_t bytes, Random& random) {
    const std::uint64_t waiting = backlog_bytes(now);
    if (waiting + bytes > options_.queue_bytes && waiting > 0) return std::nullopt;
    const std::int64_t start = std::max(free_at_, now.ns * 1000);
    free_at_ = start + transmission_picoseconds(bytes);
    Time arrival = Time{(free_at_ + 999) / 1000} + options_.delay;
    if (options_.jitter.ns > 0)
      arrival =
          arrival +
          Duration{static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(options_.jitter.ns)))};
    last_arrival_ = std::max(last_arrival_, arrival);
    return Passage{last_arrival_, options_.mark_bytes != 0 && waiting > options_.mark_bytes};
  }

  /// Bytes not yet on the wire.
  std::uint64_t backlog_bytes(Time now) const {
    const std::int64_t wait = free_at_ - now.ns * 1000;
    return wait <= 0 ? 0 : static_cast<std::uint64_t>(static_cast<double>(wait) / picoseconds_per_byte_);
  }
  /// When at most `bytes` will be waiting.
  Time drained_to(std::uint64_t bytes) const {
    const auto rest = static_cast<std::int64_t>(static_cast<double>(bytes) * picoseconds_per_byte_);
    return Time{(free_at_ - rest + 999) / 1000};
  }

 private:
  std::int64_t transmission_picoseconds(std::uint64_t bytes) const {
    return static_cast<std::int64_t>(bytes * 8'000'000'000'000 / options_.bits_per_second);
  }

  LinkOptions options_;
  double picoseconds_per_byte_;
  std::int64_t free_at_ = 0;  ///< picoseconds
  Time last_arrival_{};
};

}  // namespace rdmc::sim
