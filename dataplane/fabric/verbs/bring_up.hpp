// One queue pair's way through the device's states to where it can send, on a thread of its own: the kernel
// looks for the peer's MAC address meanwhile and lets whoever asks wait, for a second if nobody answers. An
// engine has better things to do. Owned by a VerbsQueuePair, on whose thread everything here is called, and
// by its fabric if that ends first; the handle outlives it, and nobody else changes its state before it is
// over, but to the error state, from which there is no way on.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <functional>
#include <thread>

namespace rdmc::fabric {

class BringUp {
 public:
  struct Step {
    ibv_qp_attr attributes{};
    int mask = 0;
  };

  /// `over` is called on the other thread, as the last that it does with this process.
  BringUp(ibv_qp* queue_pair, const Step& to_receive, const Step& to_send, std::function<void()> over);

  bool is_over() const { return over_.load(std::memory_order_acquire); }
  /// 0: the queue pair sends and receives; otherwise why not, as errno has it. Of one that is over.
  int error() const { return error_; }

 private:
  int error_ = 0;
  std::atomic<bool> over_ = false;
  std::jthread thread_;  // waited for at the end: a second at most, as each waits by itself
};

}  // namespace rdmc::fabric
