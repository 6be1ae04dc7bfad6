// The last turns of a connection that ends in order, or whose peer the control plane says is gone. What the
// peer has said last may have arrived and be heard in none of the turns so far: a NIC acknowledges it before
// this process looks. And an acknowledgement of ours leaves in the turn after the one in which its message
// was heard.
#pragma once

#include <cstddef>

namespace rdmc::peer {

class LastTurns {
 public:
  /// After each turn: `done` is what the connection and the fabric found to do in it. True: it was the last
  /// one.
  bool are_over(std::size_t done) {
    ++turns_;
    return turns_ >= kMost || (turns_ >= kLeast && done == 0);
  }

 private:
  static constexpr int kLeast = 3, kMost = 64;
  int turns_ = 0;
};

}  // namespace rdmc::peer
