// Measures that both models of a broadcast share: the lower bound of the time, the memory of a member, and
// the times of delivery. They are plain values.
#pragma once

#include <algorithm>
#include <optional>

#include "apps/sim/scenario.hpp"
#include "dataplane/relay/schedule.hpp"

namespace rdmc::sim_app {

inline relay::Schedule root_schedule(const ScenarioOptions& options) {
  return {options.algorithm, Rank{0}, options.members, options.racks};
}

/// Returns the number of blocks in a member's ring buffer. This is the requested number, but at least 8 and
/// at least twice the number that the algorithm needs.
inline std::uint64_t ring_slots(const ScenarioOptions& options) {
  return std::max<std::uint64_t>(
      {root_schedule(options).minimum_slots() * 2, 8, options.window_bytes / options.block_bytes});
}

/// Returns the rate of each rack's uplink, in bits per second.
inline std::uint64_t uplink_rate(const ScenarioOptions& options) {
  return options.uplink_rate != 0 ? options.uplink_rate : options.rate;
}

/// Returns the rate of a member's link, in bits per second.
inline std::uint64_t link_rate(const ScenarioOptions& options, std::uint32_t rank) {
  const auto slow = options.slow_hosts.find(rank);
  return slow == options.slow_hosts.end() ? options.rate : slow->second;
}

/// Returns the delay of a packet on a member's link.
inline Duration link_delay(const ScenarioOptions& options, std::uint32_t rank) {
  const auto far = options.far_hosts.find(rank);
  return far == options.far_hosts.end() ? options.link_delay : far->second;
}

/// Returns the lower bound of the time with any algorithm: relay::least_steps() steps that each take the time
/// of one block at the links' rate. It does not include headers.
inline double bound_seconds(const ScenarioOptions& options) {
  const std::uint64_t block = std::min<std::uint64_t>(options.block_bytes, options.size_bytes);
  const std::uint64_t blocks = relay::block_count(options.size_bytes, options.block_bytes);
  return static_cast<double>(relay::least_steps(options.members, blocks) * block) * 8 /
         static_cast<double>(options.rate);
}

/// The times of the first and the last delivery, and the number of deliveries.
class Deliveries {
 public:
  void add(Time at) {
    first_ = std::min(first_.value_or(at), at);
    last_ = std::max(last_.value_or(at), at);
    ++count_;
  }
  std::uint64_t count() const { return count_; }
  /// Returns the time from `start` to the last delivery, or 0 if there was no delivery.
  double seconds_since(Time start) const { return last_ ? (*last_ - start).seconds() : 0; }
  /// Returns the time between the first and the last delivery.
  double skew_seconds() const { return last_ ? (*last_ - *first_).seconds() : 0; }

 private:
  std::optional<Time> first_, last_;
  std::uint64_t count_ = 0;
};

}  // namespace rdmc::sim_app
