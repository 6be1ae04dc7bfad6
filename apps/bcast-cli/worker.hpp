// One thread that does what may block - files, a full pipe - for threads that must not. Tasks run in the
// order they were posted; the worker owns each until it has run. post() from any thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

class Worker {
 public:
  using Task = std::move_only_function<void()>;

  /// Errors: resource_limit (no thread).
  static Result<std::unique_ptr<Worker>> start();
  /// Runs what was posted, then ends the thread. Not on the worker's own thread.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(Task task);

 private:
  Worker() = default;
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // under mutex_
  bool ending_ = false;     // under mutex_
  std::thread thread_;
};

/// Runs `work` on the worker and then `then(owner, its result)` on the loop, if the owner still exists.
template <typename Owner, typename Work, typename Then>
void run_for(std::weak_ptr<Owner> owner, Worker& worker, control::ControlLoop& loop, Work work, Then then) {
  worker.post([owner = std::move(owner), &loop, work = std::move(work), then = std::move(then)]() mutable {
    loop.post([owner = std::move(owner), then = std::move(then), result = work()]() mutable {
      if (const auto self = owner.lock()) then(*self, std::move(result));
    });
  });
}

}  // namespace rdmc::bcast
