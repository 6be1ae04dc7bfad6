// A queue of connections that wait for their turn. Whoever registers a connection makes room for it here; so
// nothing fails when the connection has something to say later, in the middle of a call that has sent bytes
// already. Pure; under the sockets' lock.
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

  /// Room for `others` beside those that are here: each connection that is not here may come once. Throws
  /// std::bad_alloc, and nothing has changed then.
  void make_room(std::size_t others) {
    if (size_ + others <= ring_.size()) return;
    std::vector<ConnectionId> larger(std::bit_ceil(size_ + others));
    for (std::size_t i = 0; i < size_; ++i) larger[i] = ring_[at(i)];
    ring_ = std::move(larger);
    begin_ = 0;
  }
  /// There is room for it.
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
