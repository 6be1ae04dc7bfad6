#include "apps/replicated-kv/data/integers.hpp"

#include <algorithm>
#include <cstring>

namespace rdmc::kv {

namespace {

std::uint16_t width_of(std::int64_t number) {
  if (number >= INT16_MIN && number <= INT16_MAX) return 2;
  return number >= INT32_MIN && number <= INT32_MAX ? 4 : 8;
}

}  // namespace

std::int64_t Integers::at(std::size_t index) const {
  switch (width_) {
    case 2: return static_cast<const std::int16_t*>(block_)[index];
    case 4: return static_cast<const std::int32_t*>(block_)[index];
    default: return static_cast<const std::int64_t*>(block_)[index];
  }
}

void Integers::put(std::size_t index, std::int64_t number) {
  switch (width_) {
    case 2: static_cast<std::int16_t*>(block_)[index] = static_cast<std::int16_t>(number); break;
    case 4: static_cast<std::int32_t*>(block_)[index] = static_cast<std::int32_t>(number); break;
    default: static_cast<std::int64_t*>(block_)[index] = number;
  }
}

std::size_t Integers::index_of(std::int64_t number) const {
  std::size_t low = 0, high = size_;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (at(middle) < number)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool Integers::contains(std::int64_t number) const {
  const std::size_t index = index_of(number);
  return index < size_ && at(index) == number;
}

void Integers::reallocate(SmallMemory& memory, std::size_t capacity, std::size_t width) {
  Integers other;
  other.width_ = static_cast<std::uint16_t>(width);
  other.capacity_ = static_cast<std::uint16_t>(capacity);
  if (capacity > 0) {
    other.block_ = memory.allocate(capacity * width);
    other.size_ = size_;
    for (std::size_t i = 0; i < size_; ++i) other.put(i, at(i));
  }
  if (block_ != nullptr) memory.free(block_, std::size_t{capacity_} * width_);
  *this = other;
}

bool Integers::insert(SmallMemory& memory, std::int64_t number) {
  const std::size_t index = index_of(number);
  if (index < size_ && at(index) == number) return false;
  const std::size_t width = std::max(width_, width_of(number));
  if (size_ == capacity_ || width != width_) {
    // Growing by an eighth makes the cost of many insertions small.
    const std::size_t wanted = (size_ + 1 + size_ / 8) * width;
    reallocate(memory, (wanted + 7) / 8 * 8 / width, width);
  }
  auto* const bytes = static_cast<char*>(block_);
  std::memmove(bytes + (index + 1) * width, bytes + index * width, (size_ - index) * width);
  ++size_;
  memory.add(sizeof(number));
  put(index, number);
  return true;
}

bool Integers::erase(SmallMemory& memory, std::int64_t number) {
  const std::size_t index = index_of(number);
  if (index == size_ || at(index) != number) return false;
  auto* const bytes = static_cast<char*>(block_);
  --size_;
  memory.subtract(sizeof(number));
  std::memmove(bytes + index * width_, bytes + (index + 1) * width_, (size_ - index) * width_);
  if (size_ == 0) clear(memory);
  return true;
}

}  // namespace rdmc::kv
