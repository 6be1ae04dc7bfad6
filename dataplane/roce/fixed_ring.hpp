// A queue of bounded length. Its memory is allocated once, so push() never fails. The kernel provides a page
// only when it is used, so a queue pair that is never busy needs little memory. Until an element is popped,
// it can also be accessed by its absolute index: the number of elements that were pushed before it.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace rdmc::roce {

template <typename T>
class FixedRing {
 public:
  explicit FixedRing(std::size_t capacity)
      : size_(std::bit_ceil(capacity == 0 ? 1 : capacity)),
        slots_(std::allocator<T>().allocate(size_), Free{size_}),
        mask_(size_ - 1) {}

  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return static_cast<std::size_t>(tail_ - head_); }
  /// The absolute indices of the oldest element and of the next one to be pushed.
  std::uint64_t head() const { return head_; }
  std::uint64_t tail() const { return tail_; }

  void push(const T& value) {
    assert(size() < size_);
    std::construct_at(&slots_[tail_++ & mask_], value);
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
  static_assert(std::is_trivially_destructible_v<T>);
  struct Free {
    std::size_t size;
    void operator()(T* slots) const { std::allocator<T>().deallocate(slots, size); }
  };

  std::size_t size_;
  std::unique_ptr<T[], Free> slots_;
  std::uint64_t mask_, head_ = 0, tail_ = 0;
};

}  // namespace rdmc::roce
