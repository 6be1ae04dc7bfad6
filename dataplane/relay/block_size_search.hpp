// Finds by trials the block size with which a message takes the least time. The search starts at the choice
// of the cost model and doubles the size while the time improves. If the first doubling does not improve the
// time, the search halves the size while the time improves. Trials are needed because the model is fitted to
// short messages between few members. If all members share the cores of one machine, each block costs more
// time than in these messages. Pure (no I/O and no clock); any thread may use it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "dataplane/relay/cost_model.hpp"

namespace rdmc::relay {

class BlockSizeSearch {
 public:
  /// The least relative improvement over the best time so far. A smaller difference is chance.
  static constexpr double kWorthwhile = 0.02;

  /// Precondition: `from` is a power of two from kLeastAutoBlock to kMostAutoBlock.
  explicit BlockSizeSearch(std::uint32_t from) : from_(from), trial_(from) {}

  /// The block size to try next, or nullopt if the search has ended. There are at most log2(kMostAutoBlock /
  /// kLeastAutoBlock) + 1 trials.
  std::optional<std::uint32_t> trial() const { return trial_; }
  /// Reports how long a message with blocks of size trial() took.
  void took(double seconds) {
    const bool better = seconds < best_seconds_ * (1 - kWorthwhile);
    if (better) {
      best_ = *trial_;
      best_seconds_ = seconds;
    }
    const bool turns = up_ && (!better || *trial_ == kMostAutoBlock);
    if (turns && best_ > from_) {
      trial_.reset();  // The best size is above `from`, so the sizes below `from` are not tried.
    } else if (turns) {
      up_ = false;
      trial_ = smaller_than(from_);
    } else if (up_) {
      trial_ = 2 * *trial_;
    } else {
      trial_ = better ? smaller_than(*trial_) : std::nullopt;
    }
  }
  /// The best block size among those tried.
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
