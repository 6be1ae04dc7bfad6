// A table whose elements keep their index until they are removed. Indices are used again. Adding and removing
// an element takes constant time, and allocates only when the table grows.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace rdmc::replica {

template <typename T>
class Slab {
 public:
  using Index = std::uint32_t;

  /// Adds an element. References to other elements become invalid.
  Index add(T value) {
    if (free_.empty()) {
      if (free_.capacity() <= slots_.size())
        free_.reserve(2 * slots_.size() + 16);  // remove() needs no memory.
      slots_.emplace_back(std::move(value));
      return static_cast<Index>(slots_.size() - 1);
    }
    const Index index = free_.back();
    slots_[index].emplace(std::move(value));
    free_.pop_back();
    return index;
  }
  void remove(Index index) {
    assert(find(index));
    slots_[index].reset();
    free_.push_back(index);
  }
  /// Returns the element, or null if there is none with this index.
  T* find(Index index) { return index < slots_.size() && slots_[index] ? &*slots_[index] : nullptr; }
  const T* find(Index index) const {
    return index < slots_.size() && slots_[index] ? &*slots_[index] : nullptr;
  }
  T& operator[](Index index) {
    assert(find(index));
    return *slots_[index];
  }
  const T& operator[](Index index) const {
    assert(find(index));
    return *slots_[index];
  }
  std::size_t size() const { return slots_.size() - free_.size(); }
  /// All indices that were ever used are below this one.
  Index end() const { return static_cast<Index>(slots_.size()); }

 private:
  std::vector<std::optional<T>> slots_;
  std::vector<Index> free_;
};

}  // namespace rdmc::replica
