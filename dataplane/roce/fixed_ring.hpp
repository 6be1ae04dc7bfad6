// A queue of bounded length whose memory is allocated once. Elements are also reachable by the absolute index
// they were pushed at, as long as they have not been popped.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rdmc::roce {

template <typename T>
class FixedRing {
 public:
  explicit FixedRing(std::size_t capacity)
      : slots_(std::bit_ceil(capacity == 0 ? 1 : capacity)), mask_(slots_.size() - 1) {}

  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return static_cast<std::size_t>(tail_ - head_); }
  /// Absolute indices of the oldest element and of the next one pushed.
  std::uint64_t head() const { return head_; }
  std::uint64_t tail() const { return tail_; }

  void push(const T& value) {
    assert(size() < slots_.size());
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
  std::vector<T> slots_;
  std::uint64_t mask_, head_ = 0, tail_ = 0;
};

}  // namespace rdmc::roce
