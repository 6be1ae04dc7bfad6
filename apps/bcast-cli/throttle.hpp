// Keeps news that others can cause at will - refused connections - from filling a log: the first is told at
// once, then one an interval, each with the number of those kept back. Time is passed in; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "dataplane/base/types.hpp"

namespace rdmc::bcast {

class Throttle {
 public:
  explicit Throttle(Duration interval) : interval_(interval) {}

  /// Whether this one may be told, and if so how many have been kept back since the last.
  std::optional<std::uint64_t> take(Time now) {
    if (last_ && now < *last_ + interval_) {
      ++kept_back_;
      return std::nullopt;
    }
    last_ = now;
    return std::exchange(kept_back_, 0);
  }

 private:
  Duration interval_;
  std::optional<Time> last_;
  std::uint64_t kept_back_ = 0;
};

}  // namespace rdmc::bcast
