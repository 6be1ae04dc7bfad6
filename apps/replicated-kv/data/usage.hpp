// This clock says how recently or how often a key was used, in 24 bits, as Redis keeps it. It serves the
// choice of the keys that a server evicts. It is no part of what the replicas keep alike: each server has its
// own, because the main answers reads that the others do not see. The functions are pure.
//
//   usage := with a policy for the least recently used keys: the time of the last use in seconds
//            with a policy for the least frequently used keys: a time in minutes (16 bits), counter (8 bits)
//
// The counter grows with the logarithm of the number of uses, and falls by one in each `decay_minutes`
// without a use (Redis, "Using Redis as an LRU cache", section "The new LFU mode").
#pragma once

#include <algorithm>
#include <cstdint>

namespace rdmc::kv {

class UsageClock {
 public:
  static constexpr std::uint32_t kBits = 24, kMask = (1u << kBits) - 1;
  static constexpr std::uint32_t kFirstCount = 5, kMostCount = 255;

  bool counts_uses = false;  ///< the policy is for the least frequently used keys
  std::uint32_t log_factor = 10, decay_minutes = 1;

  /// `seconds` since 1970.
  void set_time(std::int64_t seconds) { seconds_ = static_cast<std::uint32_t>(seconds); }

  /// The usage of a key that was used now. That of a new key is 0.
  std::uint32_t used(std::uint32_t usage) {
    if (!counts_uses) return std::max(seconds_ & kMask, 1u);
    const std::uint32_t count = usage == 0 ? kFirstCount : incremented(count_of(usage));
    return minutes() << 8 | count;
  }
  std::uint32_t idle_seconds(std::uint32_t usage) const { return (seconds_ - usage) & kMask; }
  /// The counter.
  std::uint32_t count_of(std::uint32_t usage) const {
    const std::uint32_t passed = (minutes() - (usage >> 8)) & 0xFFFF;
    const std::uint32_t periods = decay_minutes == 0 ? 0 : passed / decay_minutes;
    return (usage & 0xFF) - std::min(usage & 0xFF, periods);
  }
  std::uint32_t with_idle_seconds(std::uint64_t idle) const {
    return std::max((seconds_ - static_cast<std::uint32_t>(std::min<std::uint64_t>(idle, kMask))) & kMask,
                    1u);
  }
  std::uint32_t with_count(std::uint32_t count) const { return minutes() << 8 | std::min(count, kMostCount); }
  /// A key with a larger value is evicted rather.
  std::uint32_t badness(std::uint32_t usage) const {
    return counts_uses ? kMostCount - count_of(usage) : idle_seconds(usage);
  }

 private:
  std::uint32_t minutes() const { return seconds_ / 60 & 0xFFFF; }
  std::uint32_t incremented(std::uint32_t count) {
    if (count >= kMostCount) return kMostCount;
    random_ = random_ * 6364136223846793005 + 1442695040888963407;
    const auto base = static_cast<double>(count - std::min(count, kFirstCount));
    const double chance = static_cast<double>(random_ >> 40) / static_cast<double>(1 << 24);
    return chance < 1.0 / (base * log_factor + 1) ? count + 1 : count;
  }

  std::uint32_t seconds_ = 0;
  std::uint64_t random_ = 1;
};

}  // namespace rdmc::kv
