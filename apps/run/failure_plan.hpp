// The failures that rdmc_run --inject-failures causes: when a replica is killed, and which one. A core
// without I/O and without a clock. What it chooses is a function of the seed and of the replicas that can be
// killed. One thread uses it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string_view>

#include "dataplane/base/types.hpp"
#include "lib/replica/layout.hpp"

namespace rdmc::run {

struct FailureSpec {
  static constexpr double kLeastRate = 0.001, kMostRate = 1000;

  double rate = 10;                                                 ///< failures for each second, on average
  std::uint64_t count = std::numeric_limits<std::uint64_t>::max();  ///< the largest number of failures
  std::uint64_t seed = 1;
  friend bool operator==(const FailureSpec&, const FailureSpec&) = default;
};

/// Parses "20" (20 failures), "0.5/s" (a failure each 2 seconds on average, until the end), or one of them
/// with a seed: "20:7". Errors: invalid_argument if the text is not like this, if the number of failures is
/// 0, or if the rate is out of its range.
Result<FailureSpec> parse_failures(std::string_view text);

class FailurePlan {
 public:
  explicit FailurePlan(const FailureSpec& spec) : left_(spec.count), rate_(spec.rate), random_(spec.seed) {}

  /// Returns the time until the next failure, or nullopt if there is none. The times between failures are
  /// distributed exponentially.
  std::optional<Duration> next();
  /// Returns one of the processes, or nullopt if there is none. A failure that finds none does not count.
  std::optional<replica::ProcessId> choose(std::span<const replica::ProcessId> spare);

 private:
  std::uint64_t left_;
  double rate_;
  std::mt19937_64 random_;
};

}  // namespace rdmc::run
