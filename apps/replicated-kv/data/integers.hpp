// A sorted array of different integers in one block of memory, with 2, 4 or 8 bytes for each of them, as the
// largest one needs. The owner must call clear() before the end. One thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "apps/replicated-kv/data/small_memory.hpp"

namespace rdmc::kv {

class Integers {
 public:
  std::size_t size() const { return size_; }
  std::int64_t at(std::size_t index) const;
  bool contains(std::int64_t number) const;
  /// Returns false if the number is there already.
  bool insert(SmallMemory& memory, std::int64_t number);
  /// Returns false if there is no such number.
  bool erase(SmallMemory& memory, std::int64_t number);
  void clear(SmallMemory& memory) {
    memory.subtract(size_ * sizeof(std::int64_t));
    reallocate(memory, 0, width_);
  }

 private:
  /// The number of smaller integers.
  std::size_t index_of(std::int64_t number) const;
  void put(std::size_t index, std::int64_t number);
  void reallocate(SmallMemory& memory, std::size_t capacity, std::size_t width);

  void* block_ = nullptr;
  std::uint16_t size_ = 0, capacity_ = 0, width_ = 2;
};

}  // namespace rdmc::kv
