// The QP bring-up of one queue pair, on a thread of its own. During the bring-up, the kernel resolves the
// peer's MAC address. It blocks the calling thread, for up to a second if the peer does not answer, and an
// engine must not be blocked for so long. Owned by a VerbsQueuePair, or by its fabric if the queue pair ends
// first. All functions are called on the fabric thread. The handle must outlive this object. Until is_over(),
// the handle's state may be changed only to the error state, from which the bring-up cannot continue.
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

  /// Starts the bring-up. `over` is called on the thread of the bring-up, as the last action of this thread.
  BringUp(ibv_qp* queue_pair, const Step& to_receive, const Step& to_send, std::function<void()> over);

  bool is_over() const { return over_.load(std::memory_order_acquire); }
  /// Returns 0 if the queue pair can send and receive; otherwise an errno value. Precondition: is_over().
  int error() const { return error_; }

 private:
  int error_ = 0;
  std::atomic<bool> over_ = false;
  std::jthread thread_;  // The destructor waits for this thread, for about a second at most.
};

}  // namespace rdmc::fabric
