// Limits the number of turns that a connection still gets after its end is known. The number is between 3 and
// 64. The connection needs some turns for two reasons. A NIC acknowledges messages before this process looks
// at them, so the peer's last messages may have arrived although no turn has processed them. This side's own
// acknowledgement is sent one turn after its message was processed.
#pragma once

#include <cstddef>

namespace rdmc::peer {

class LastTurns {
 public:
  /// Called after each turn. `done` is the amount of work that the connection and the fabric found in this
  /// turn. Returns true if this was the last turn.
  bool are_over(std::size_t done) {
    ++turns_;
    return turns_ >= kMost || (turns_ >= kLeast && done == 0);
  }

 private:
  static constexpr int kLeast = 3, kMost = 64;
  int turns_ = 0;
};

}  // namespace rdmc::peer
