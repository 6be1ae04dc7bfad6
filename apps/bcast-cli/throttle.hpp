// Limits reports of events that others can cause at will, such as refused connections, so that they do not
// fill a log. The first event is reported at once. After that, at most one event is reported in each
// interval, with the number of events that were left out since the last report. Time is passed in. Only one
// thread may use an object.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "dataplane/base/types.hpp"

namespace rdmc::bcast {

class Throttle {
 public:
  explicit Throttle(Duration interval) : interval_(interval) {}

  /// Returns nullopt if this event must not be reported. Otherwise returns the number of events that were
  /// left out since the last report.
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
