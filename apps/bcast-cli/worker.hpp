// One thread that does what may block - files, a full pipe - for threads that must not. Tasks run in the
// order they were posted; the worker owns each until it has run. One that meets std::bad_alloc is given up.
// post() from any thread.
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
#include "dataplane/base/no_memory.hpp"

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

/// Posts `task` to the loop from a worker's task: the worker waits until there is memory for that.
inline void post_from_worker(control::ControlLoop& loop, const std::shared_ptr<Worker::Task>& task) {
  when_there_is_memory([&] {
    loop.post([task] {
      auto once = std::move(*task);  // it ends on the loop, too
      once();
    });
  });
}

/// Runs `work` on the worker and then `then(owner, its result)` on the loop, if the owner still exists. Work
/// that meets std::bad_alloc has resource_limit as its result.
template <typename Owner, typename Work, typename Then>
requires IsResult<std::invoke_result_t<Work>>
void run_for(std::weak_ptr<Owner> owner, Worker& worker, control::ControlLoop& loop, Work work, Then then) {
  using Answer = std::invoke_result_t<Work>;
  auto result = std::make_shared<Answer>(fail(Errc::cancelled, "not run"));
  auto answer =
      std::make_shared<Worker::Task>([owner = std::move(owner), then = std::move(then), result]() mutable {
        if (const auto self = owner.lock()) then(*self, std::move(*result));
      });
  worker.post(
      [&loop, work = std::move(work), result = std::move(result), answer = std::move(answer)]() mutable {
        *result = or_no_memory(work);
        result.reset();
        post_from_worker(loop, answer);
      });
}

}  // namespace rdmc::bcast
