// Values with small numbers as names, which are used again: what is under way in a simulation, named by an
// event's argument. One thread.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace rdmc::sim {

template <typename T>
class Slots {
 public:
  std::size_t put(T value) {
    if (free_.empty()) {
      values_.push_back(std::move(value));
      return values_.size() - 1;
    }
    const std::size_t slot = free_.back();
    free_.pop_back();
    values_[slot] = std::move(value);
    return slot;
  }
  T& operator[](std::size_t slot) { return values_[slot]; }
  /// Frees the slot; once for each put.
  T take(std::size_t slot) {
    free_.push_back(slot);
    return std::move(values_[slot]);
  }

 private:
  std::vector<T> values_;
  std::vector<std::size_t> free_;
};

}  // namespace rdmc::sim
