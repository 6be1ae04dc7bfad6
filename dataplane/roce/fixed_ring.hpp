// A queue of bounded length. Its memory grows with the most elements that it has held: a queue pair that is
// never busy needs little. Elements are also reachable by the absolute index they were pushed at, as long as
// they have not been popped. push() may move all elements.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rdmc::roce {

template <typename T>
class FixedRing {
 public:
  explicit FixedRing(std::size_t capacity)
      : capacity_(std::bit_ceil(std::max<std::size_t>(capacity, 1))),
        slots_(std::min(capacity_, kFewest)),
        mask_(slots_.size() - 1) {}

  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return static_cast<std::size_t>(tail_ - head_); }
  /// Absolute indices of the oldest element and of the next one pushed.
  std::uint64_t head() const { return head_; }
  std::uint64_t tail() const { return tail_; }

  void push(const T& value) {
    if (size() == slots_.size()) [[unlikely]]
      grow(value);
    else
      slots_[tail_++ & mask_] = value;
  }
  void pop() {
    assert(!empty());
    ++head_;
  }
  void clear() { head_ = tail_; }
  T& front() { return slots_[head_ & mask_]; }
  const T& front() const { return slots_[head_ & mask_]; }
  T& operator[](std::uint64_t index) { return slots_[index & mask_]; }
  const T& operator[](std::uint64_t index) const { return slots_[index & mask_]; }

 private:
  static constexpr std::size_t kFewest = 8;

  void grow(T value) {
    assert(size() < capacity_);
    std::vector<T> slots(2 * slots_.size());
    for (std::uint64_t index = head_; index != tail_; ++index)
      slots[index & (slots.size() - 1)] = std::move(slots_[index & mask_]);
    slots_ = std::move(slots);
    mask_ = slots_.size() - 1;
    slots_[tail_++ & mask_] = value;
  }

  std::size_t capacity_;
  std::vector<T> slots_;
  std::uint64_t mask_, head_ = 0, tail_ = 0;
};

}  // namespace rdmc::roce
