// At its end a connection gets 3 to 64 more turns. The peer's last messages may have arrived although no turn
// has heard them: a NIC acknowledges them before this process looks. Our own acknowledgement leaves one turn
// after its message was heard.
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
