// A queue of connections that wait until they may send. The code that registers a connection reserves memory
// for it here. So push() cannot fail later, in the middle of a call that has already sent bytes. No I/O. The
// caller must hold the sockets' lock.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <vector>

#include "lib/socket/records.hpp"

namespace rdmc::sockets {

class Turns {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  /// Reserves memory for `others` more connections. Each connection that is not in the queue may then be
  /// pushed once. If this function throws std::bad_alloc, nothing has changed.
  void make_room(std::size_t others) {
    if (size_ + others <= ring_.size()) return;
    std::vector<ConnectionId> larger(std::bit_ceil(size_ + others));
    for (std::size_t i = 0; i < size_; ++i) larger[i] = ring_[at(i)];
    ring_ = std::move(larger);
    begin_ = 0;
  }
  /// Adds `connection` at the end. Precondition: memory was reserved for it.
  void push(ConnectionId connection) noexcept {
    assert(size_ < ring_.size());
    ring_[at(size_++)] = connection;
  }
  ConnectionId pop() noexcept {
    assert(size_ != 0);
    const ConnectionId first = ring_[begin_];
    begin_ = at(1);
    --size_;
    return first;
  }
  void clear() noexcept { begin_ = size_ = 0; }

 private:
  std::size_t at(std::size_t place) const { return (begin_ + place) & (ring_.size() - 1); }

  std::vector<ConnectionId> ring_;  // its size is a power of two, or 0
  std::size_t begin_ = 0, size_ = 0;
};

}  // namespace rdmc::sockets
