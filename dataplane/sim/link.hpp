// One direction of a cable. Datagrams wait in a queue of limited size, leave one after the other at the rate
// of the link, and arrive in the order in which they left. Times are kept in picoseconds, so that a rate is
// exact over millions of datagrams.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "dataplane/base/random.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::sim {

struct LinkOptions {
  std::uint64_t bits_per_second = 10'000'000'000;
  Duration delay = microseconds(5);  ///< the propagation delay
  Duration jitter{};  ///< a random time up to this value is added to the delay; the order is kept
  /// The largest number of bytes that may wait to be sent. A datagram that would exceed this number is
  /// dropped.
  std::uint64_t queue_bytes = 1 << 20;
  std::uint64_t mark_bytes = 0;  ///< if more bytes than this wait, the link sets ECN's CE mark; 0 means never
};

class Link {
 public:
  explicit Link(const LinkOptions& options)
      : options_(options), picoseconds_per_byte_(8e12 / static_cast<double>(options.bits_per_second)) {}

  struct Passage {
    Time arrival;         ///< when the last bit reaches the far end
    bool marked = false;  ///< the queue was so long that the datagram got an ECN mark
  };

  /// Puts a datagram of `bytes` bytes on the wire. Returns nullopt if the queue is full. An empty queue
  /// accepts a datagram of any size.
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

  /// The number of bytes that are not on the wire yet.
  std::uint64_t backlog_bytes(Time now) const {
    const std::int64_t wait = free_at_ - now.ns * 1000;
    return wait <= 0 ? 0 : static_cast<std::uint64_t>(static_cast<double>(wait) / picoseconds_per_byte_);
  }
  /// The time at which at most `bytes` bytes will be waiting.
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
  std::int64_t free_at_ = 0;  ///< when the link is free again, in picoseconds
  Time last_arrival_{};
};

}  // namespace rdmc::sim
