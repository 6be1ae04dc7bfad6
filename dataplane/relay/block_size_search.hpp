// Which block size takes a message least time, by trying: uphill from where the cost model begins, by
// doubling, then downhill. The model is fitted to short messages between few members, and where all of them
// share a machine's cores a block costs more than that tells. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "dataplane/relay/cost_model.hpp"

namespace rdmc::relay {

class BlockSizeSearch {
 public:
  /// By how much a size must be better than the best so far: less is chance.
  static constexpr double kWorthwhile = 0.02;

  /// `from` is a power of two from kLeastAutoBlock to kMostAutoBlock.
  explicit BlockSizeSearch(std::uint32_t from) : from_(from), trial_(from) {}

  /// What to try next; nothing: the search is over. At most log2(kMostAutoBlock / kLeastAutoBlock) + 1 tries.
  std::optional<std::uint32_t> trial() const { return trial_; }
  /// How long a message took in blocks of trial().
  void took(double seconds) {
    const bool better = seconds < best_seconds_ * (1 - kWorthwhile);
    if (better) {
      best_ = *trial_;
      best_seconds_ = seconds;
    }
    const bool turns = up_ && (!better || *trial_ == kMostAutoBlock);
    if (turns && best_ > from_) {
      trial_.reset();  // it lies above, and what is below `from` is further off
    } else if (turns) {
      up_ = false;
      trial_ = smaller_than(from_);
    } else if (up_) {
      trial_ = 2 * *trial_;
    } else {
      trial_ = better ? smaller_than(*trial_) : std::nullopt;
    }
  }
  /// The best of those tried.
  std::uint32_t best() const { return best_; }

 private:
  static std::optional<std::uint32_t> smaller_than(std::uint32_t size) {
    return size > kLeastAutoBlock ? std::optional(size / 2) : std::nullopt;
  }

  std::uint32_t from_;
  std::optional<std::uint32_t> trial_;
  std::uint32_t best_ = from_;
  double best_seconds_ = std::numeric_limits<double>::infinity();
  bool up_ = true;
};

}  // namespace rdmc::relay
