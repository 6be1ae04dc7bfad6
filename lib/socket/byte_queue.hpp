// A queue of bytes that takes memory when there is something in it, and gives it back when there is not: most
// connections of a server are idle, and an idle one must cost nothing. Pure; one thread at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace rdmc::sockets {

class ByteQueue {
 public:
  /// What an empty queue keeps at most.
  static constexpr std::size_t kKeptBytes = 4096;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// For so many bytes more. As push() it throws std::bad_alloc, and nothing has changed then.
  void make_room(std::size_t bytes) { reserve(size_ + bytes); }
  void push(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    make_room(bytes.size());
    const std::size_t end = (begin_ + size_) & (ring_.size() - 1);
    const std::size_t first = std::min(bytes.size(), ring_.size() - end);
    std::memcpy(&ring_[end], bytes.data(), first);
    std::memcpy(ring_.data(), bytes.data() + first, bytes.size() - first);
    size_ += bytes.size();
  }

  /// Copies the oldest min(out.size(), size()) bytes and leaves them where they are; returns how many.
  std::size_t peek(std::span<std::byte> out) const {
    const std::size_t count = std::min(out.size(), size_);
    if (count == 0) return 0;
    const std::size_t first = std::min(count, ring_.size() - begin_);
    std::memcpy(out.data(), &ring_[begin_], first);
    std::memcpy(out.data() + first, ring_.data(), count - first);
    return count;
  }

  void pop(std::size_t count) {
    assert(count <= size_);
    size_ -= count;
    if (size_ != 0)
      begin_ = (begin_ + count) & (ring_.size() - 1);
    else if (begin_ = 0; ring_.size() > kKeptBytes)
      clear();
  }

  void clear() { *this = ByteQueue(); }

 private:
  void reserve(std::size_t bytes) {
    if (bytes <= ring_.size()) return;
    std::vector<std::byte> larger(std::bit_ceil(std::max<std::size_t>(bytes, 256)));
    peek(larger);
    ring_ = std::move(larger);
    begin_ = 0;
  }

  std::vector<std::byte> ring_;  // its size is a power of two, or 0
  std::size_t begin_ = 0, size_ = 0;
};

}  // namespace rdmc::sockets
