#include "dataplane/engine/engine.hpp"

#include <oneapi/tbb/concurrent_queue.h>
#include <sched.h>

#include <algorithm>
#include <new>
#include <utility>

#include "dataplane/base/clock.hpp"

namespace rdmc::engine {

struct Engine::Queue {
  oneapi::tbb::concurrent_bounded_queue<Task> tasks;
};

Engine::Engine(Waiter& waiter, IdleStrategy idle)
    : waiter_(waiter), idle_(idle), queue_(std::make_unique<Queue>()) {
  queue_->tasks.set_capacity(kQueueDepth);
}

Engine::~Engine() = default;

Result<void> Engine::post(Task task) {
  if (!queue_->tasks.try_push(std::move(task))) return fail(Errc::would_block, "the engine's queue is full");
  if (sleep_.must_wake()) waiter_.wake();
  return {};
}

void Engine::stop() noexcept {
  stopping_ = true;
  waiter_.wake();
}

/// Runs the tasks that are in the queue at the beginning, and returns their number. Later tasks wait for the
/// next turn: other threads may post tasks as fast as this function runs them, and the pollers need their
/// turns, too.
std::size_t Engine::run_tasks() {
  const auto waiting = static_cast<std::size_t>(queue_->tasks.size());
  std::size_t done = 0;
  for (Task task; done < waiting && queue_->tasks.try_pop(task); ++done) {
    try {
      task();
    } catch (const std::bad_alloc&) {
      tell_out_of_memory();
    }
  }
  return done;
}

void Engine::tell_out_of_memory() {
  for (Entry& entry : pollers_) entry.lacked_memory = true;
}

/// Gives one poller its turn. The poller may remove itself in this turn, so its entry is looked up again
/// afterwards.
std::size_t Engine::give_turn(std::size_t index, Time now) {
  Poller& poller = *pollers_[index].poller;
  try {
    if (!pollers_[index].lacked_memory) return poller.work(now);
    poller.on_out_of_memory();
    if (index < pollers_.size() && pollers_[index].poller == &poller) pollers_[index].lacked_memory = false;
  } catch (const std::bad_alloc&) {
    if (index < pollers_.size() && pollers_[index].poller == &poller) pollers_[index].lacked_memory = true;
  }
  return 1;  // counts as work, so that the next turn follows at once
}

std::size_t Engine::poll(Time now) {
  std::size_t done = run_tasks();
  // This loop uses indices, because a poller may add or remove pollers in its turn.
  for (std::size_t i = 0; i < pollers_.size(); ++i) done += give_turn(i, now);
  return done;
}

/// Announces that the engine is about to wait. Returns the time until which the engine may wait.
Time Engine::announce_wait(Time latest) {
  sleep_.announce();  // This must happen before the last check of the queue.
  Time deadline = stopping_ || !queue_->tasks.empty() ? Time{0} : latest;
  for (const Entry& entry : pollers_) deadline = std::min(deadline, entry.poller->next_deadline());
  return deadline;
}

void Engine::block_until_due(Time latest) {
  try {
    waiter_.wait(announce_wait(latest));
  } catch (const std::bad_alloc&) {
    tell_out_of_memory();
  }
  sleep_.withdraw();
}

Time Engine::run_while_busy() {
  constexpr int kMostTurns = 64;  // The number is limited, because the application has other work to do.
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const Time now = monotonic_now();
    try {
      if (std::exchange(prepared_, false)) {
        sleep_.withdraw();
        waiter_.finish_wait();
      }
      if (poll(now) != 0) continue;
      prepared_ = true;
      if (const Time until = waiter_.prepare_wait(announce_wait(Time::never())); until > now) return until;
    } catch (const std::bad_alloc&) {
      tell_out_of_memory();
    }
  }
  return Time{};
}

void Engine::turn(Duration longest) {
  const Time now = monotonic_now();
  if (poll(now) != 0)
    idle_.found_work(now);
  else if (idle_.found_nothing(now))
    block_until_due(now + longest);
  else
    pause();
}

/// Called between two turns while the engine spins.
void Engine::pause() {
  waiter_.pause();
  if (!idle_.offers_core()) return;
  const Time offered = monotonic_now();
  sched_yield();
  idle_.offered(monotonic_now() - offered);
}

void Engine::run() {
  while (!stopping_) turn(seconds(3600));
  for (std::size_t done = 0, now = 1; now != 0 && done < kQueueDepth; done += now) now = run_tasks();
}

}  // namespace rdmc::engine
