// A queue of bytes. It allocates memory when it gets content, and frees large memory when it becomes empty.
// The reason: most connections of a server are idle, and an idle connection must cost almost nothing. No I/O.
// Only one thread may use a queue at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace rdmc::sockets {

class ByteQueue {
 public:
  /// The most memory that an empty queue keeps.
  static constexpr std::size_t kKeptBytes = 4096;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  /// Reserves memory for `bytes` more bytes. make_room() and push() may throw std::bad_alloc. In that case
  /// nothing has changed.
  void make_room(std::size_t bytes) { reserve(size_ + bytes); }
  void push(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    make_room(bytes.size());
    const std::size_t end = (begin_ + size_) & (room_ - 1);
    const std::size_t first = std::min(bytes.size(), room_ - end);
    std::memcpy(&ring_[end], bytes.data(), first);
    std::memcpy(ring_.get(), bytes.data() + first, bytes.size() - first);
    size_ += bytes.size();
  }

  /// Adds `count` bytes of undefined value in one piece and returns them. The caller must fill them.
  /// Precondition: nothing was taken from the queue.
  std::span<std::byte> extend(std::size_t count) {
    assert(begin_ == 0);
    make_room(count);
    size_ += count;
    return {ring_.get() + size_ - count, count};
  }

  /// Copies the oldest min(out.size(), size()) bytes, leaves them in the queue, and returns their number.
  std::size_t peek(std::span<std::byte> out) const {
    const std::size_t count = std::min(out.size(), size_);
    if (count == 0) return 0;
    const std::size_t first = std::min(count, room_ - begin_);
    std::memcpy(out.data(), &ring_[begin_], first);
    std::memcpy(out.data() + first, ring_.get(), count - first);
    return count;
  }

  void pop(std::size_t count) {
    assert(count <= size_);
    size_ -= count;
    if (size_ != 0)
      begin_ = (begin_ + count) & (room_ - 1);
    else if (begin_ = 0; room_ > kKeptBytes)
      clear();
  }

  void clear() { *this = ByteQueue(); }

 private:
  void reserve(std::size_t bytes) {
    if (bytes <= room_) return;
    const std::size_t room = std::bit_ceil(std::max<std::size_t>(bytes, 256));
    auto larger = std::make_unique_for_overwrite<std::byte[]>(room);
    peek({larger.get(), room});
    ring_ = std::move(larger);
    room_ = room;
    begin_ = 0;
  }

  std::unique_ptr<std::byte[]> ring_;
  std::size_t room_ = 0;  // the size of the ring buffer: a power of two, or 0
  std::size_t begin_ = 0, size_ = 0;
};

}  // namespace rdmc::sockets
