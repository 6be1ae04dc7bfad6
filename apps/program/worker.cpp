#include "apps/program/worker.hpp"

#include <utility>

#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc {

Result<std::unique_ptr<Worker>> Worker::start() {
  std::unique_ptr<Worker> worker(new Worker);
  auto thread = start_signal_masked_thread("for what may block", [raw = worker.get()] { raw->run(); });
  if (!thread) return std::unexpected(thread.error());
  worker->thread_ = std::move(*thread);
  return worker;
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Worker::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

void Worker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      try {
        task();
      } catch (const std::bad_alloc&) {  // This task is dropped, and the next tasks run.
      }
    }  // The task is also destroyed without the lock.
    lock.lock();
  }
}

}  // namespace rdmc
