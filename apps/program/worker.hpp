// A thread for calls that may block, such as those on files or a full pipe. Threads that must not block post
// tasks to it. Tasks run in the order of posting. The worker owns each task until it has run. A task that
// throws std::bad_alloc is given up. post() may be called from any thread.
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

namespace rdmc {

class Worker {
 public:
  using Task = std::move_only_function<void()>;

  /// Starts the thread. Errors: resource_limit if no thread can be started.
  static Result<std::unique_ptr<Worker>> start();
  /// Runs all posted tasks and ends the thread. Must not run on the worker's own thread.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(Task task);

 private:
  Worker() = default;
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // protected by mutex_
  bool ending_ = false;     // protected by mutex_
  std::thread thread_;
};

/// Posts `task` to the loop. Called by a task of a worker. If there is no memory, this function blocks until
/// the task is posted.
inline void post_from_worker(control::ControlLoop& loop, const std::shared_ptr<Worker::Task>& task) {
  when_there_is_memory([&] {
    loop.post([task] {
      auto once = std::move(*task);  // the task is also destroyed on the loop's thread
      once();
    });
  });
}

/// Runs `work` on the worker. Then runs `then(owner, result)` on the loop, if the owner still exists. If
/// `work` throws std::bad_alloc, the result is resource_limit.
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

}  // namespace rdmc
