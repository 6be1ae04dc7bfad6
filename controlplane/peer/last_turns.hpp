// Limits how many turns a connection still gets after its end is known: 3 to 64. The peer's last messages may
// have arrived although no turn has processed them, because a NIC acknowledges messages before this process
// looks. This side's own acknowledgement leaves one turn after its message was processed.
#pragma once

#include <cstddef>

namespace rdmc::peer {

class LastTurns {
 public:
  /// Called after each turn. `done` is the amount of work that the connection and the fabric found in it.
  /// Returns true if it was the last turn.
  bool are_over(std::size_t done) {
    ++turns_;
    return turns_ >= kMost || (turns_ >= kLeast && done == 0);
  }

 private:
  static constexpr int kLeast = 3, kMost = 64;
  int turns_ = 0;
};

}  // namespace rdmc::peer
