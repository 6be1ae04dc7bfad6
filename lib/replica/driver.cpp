#include "lib/replica/driver.hpp"

#include <pthread.h>

#include <chrono>

#include "dataplane/base/signal_masked_thread.hpp"
#include "lib/replica/process_fork.hpp"

namespace rdmc::replica {

Result<std::unique_ptr<Driver>> Driver::open(peer::FabricThreadOptions options) {
  options.own_thread = false;
  options.changes_threads = true;
  std::unique_ptr<Driver> self(new Driver(std::move(options)));
  if (auto begun = self->begin(); !begun) return std::unexpected(begun.error());
  return self;
}

Result<void> Driver::begin() {
  auto thread = peer::FabricThread::open(options_);
  if (!thread) return std::unexpected(thread.error());
  thread_ = std::move(*thread);
  stand_in_ = std::make_unique<StandIn>();
  auto started = start_signal_masked_thread("for the time when the program computes", [this] {
    pthread_setname_np(pthread_self(), "rdmc-stand-in");
    stand_in();
  });
  if (!started) return std::unexpected(started.error());
  stand_in_->thread = std::move(*started);
  return {};
}

Result<void> Driver::open_again() {
  keep_unused(std::move(stand_in_));
  keep_unused(std::move(thread_));
  return begin();
}

Driver::~Driver() {
  if (!stand_in_ || !stand_in_->thread.joinable()) return;
  {
    const std::lock_guard lock(stand_in_->mutex);
    stand_in_->is_ending = true;
  }
  stand_in_->ending.notify_all();
  if (stands_in_) thread_->wake();
  stand_in_->thread.join();
  thread_->take_over();
}

// Each of the two threads first shows that it wants the engine, and then looks at the other one. So at least
// one of them sees the other one. The driver's thread gives way.
void Driver::enter() {
  is_inside_ = true;
  if (stands_in_) {
    thread_->wake();
    stands_in_.wait(true);
  }
  if (!thread_->is_current()) thread_->take_over();
}

void Driver::leave() {
  is_inside_.store(false, std::memory_order_release);
}

// A call without a turn does not count. A program that makes only such calls does not answer its peers.
void Driver::turn(Duration longest) {
  turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  static_cast<void>(thread_->turn(longest));
}

void Driver::stand_in() {
  std::uint64_t seen = 0;
  StandIn& own = *stand_in_;
  std::unique_lock lock(own.mutex);
  while (!own.is_ending) {
    // A program that waits in a call for long needs no look at it every few milliseconds.
    const Duration pause = is_inside_ ? kAway * 10 : kAway;
    own.ending.wait_for(lock, std::chrono::nanoseconds(pause.ns), [&] { return own.is_ending.load(); });
    if (is_wanted() || turns_ != seen) {
      seen = turns_;
      continue;
    }
    lock.unlock();
    stands_in_ = true;
    if (!is_wanted()) thread_->take_over();
    while (!is_wanted()) static_cast<void>(thread_->turn(seconds(1)));
    stands_in_ = false;
    stands_in_.notify_one();
    lock.lock();
  }
}

}  // namespace rdmc::replica
