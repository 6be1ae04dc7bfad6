#include "apps/bcast-cli/worker.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

namespace rdmc::bcast {

Result<std::unique_ptr<Worker>> Worker::start() {
  std::unique_ptr<Worker> worker(new Worker);
  try {
    worker->thread_ = std::thread([raw = worker.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return fail(Errc::resource_limit, fmt::format("no thread: {}", error.what()));
  }
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
      task();
    }  // what the task holds is destroyed without the lock, too
    lock.lock();
  }
}

}  // namespace rdmc::bcast
