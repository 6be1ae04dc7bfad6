// Keeps values, each of which is identified by a small number. After a value was taken, its number is used
// again. The argument of a simulation's event contains such a number, to identify a value in flight. Only one
// thread may use an object.
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
  /// Frees the slot and returns its value. It must be called once for each put().
  T take(std::size_t slot) {
    free_.push_back(slot);
    return std::move(values_[slot]);
  }

 private:
  std::vector<T> values_;
  std::vector<std::size_t> free_;
};

}  // namespace rdmc::sim
