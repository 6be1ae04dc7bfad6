#include "lib/socket/node_ender.hpp"

#include <new>
#include <utility>

#include "dataplane/base/no_memory.hpp"
#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::sockets {

void NodeEnder::end(std::unique_ptr<Node> node, Then then) {
  Ending ending{std::move(node), std::move(then)};
  if (!ending.node || !hand_over(ending)) ending();
}

bool NodeEnder::hand_over(Ending& ending) {
  const std::lock_guard lock(mutex_);
  if (is_finishing_) return false;
  try {
    if (!thread_.joinable()) {
      auto started = start_signal_masked_thread("to end nodes", [this] { run(); });
      if (!started) return false;
      thread_ = std::move(*started);
    }
    endings_.push_back(std::move(ending));
  } catch (const std::bad_alloc&) {
    return false;
  }
  changed_.notify_one();
  return true;
}

void NodeEnder::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_finishing_ || !endings_.empty(); });
    if (endings_.empty()) return;
    Ending next = std::move(endings_.front());
    endings_.pop_front();
    lock.unlock();
    // If there is no memory even for the last task on the control loop, the objects that this task keeps are
    // destroyed on this thread.
    (void)or_no_memory([&]() -> Result<void> { return next(), Result<void>{}; });
    next = {};
    lock.lock();
  }
}

void NodeEnder::finish() {
  {
    const std::lock_guard lock(mutex_);
    is_finishing_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace rdmc::sockets
