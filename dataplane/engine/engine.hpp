// The poll loop: one thread that gives every poller its turn, spins for a short while when nobody had work,
// and then blocks until a packet, a deadline or another thread's request. It exists so that protocol code
// needs no locks: all it owns is touched by this thread only, and other threads hand work in through a
// bounded queue.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/engine/idle.hpp"
#include "dataplane/engine/sleep_handshake.hpp"

namespace rdmc::engine {

/// Something with a duty cycle. Called on the engine's thread only; never blocks.
class Poller {
 public:
  virtual ~Poller() = default;
  /// Does what there is to do; returns how much it was, 0 = nothing.
  virtual std::size_t work(Time now) = 0;
  /// When work must be called even if nothing else happens.
  virtual Time next_deadline() const { return Time::never(); }
  /// The process had no memory for something that this poller, or a task, needed. The poller gives up what
  /// may lack a piece, by name. When that throws std::bad_alloc again, the engine calls this once more later.
  /// It is never called while memory lasts.
  virtual void on_out_of_memory() {}
};

/// What the engine blocks on.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual void wait(Time deadline) = 0;
  virtual void wake() noexcept = 0;  ///< from any thread
  virtual void pause() {}            ///< between two looks while spinning
  // As in fabric::Fabric.
  virtual Time prepare_wait(Time) { return Time{}; }
  virtual void finish_wait() {}
};

class Engine {
 public:
  static constexpr std::size_t kQueueDepth = 4096;
  using Task = std::move_only_function<void()>;

  Engine(Waiter& waiter, IdleStrategy idle);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Engine thread, or before it runs. The poller outlives the engine or is removed.
  void add(Poller& poller) { pollers_.push_back({.poller = &poller}); }
  void remove(Poller& poller) {
    std::erase_if(pollers_, [&](const Entry& entry) { return entry.poller == &poller; });
  }

  /// Any thread: runs `task` on the engine's thread, in the order of posting. Errors: would_block (queue
  /// full).
  Result<void> post(Task task);
  /// Any thread: a poller has something to do, and its next_deadline() has said so before this call by a time
  /// that has passed. An engine that sleeps, or is about to, goes on. Cheaper than a task.
  void notify() noexcept {
    if (sleep_.must_wake()) waiter_.wake();
  }

  /// One turn without blocking; returns how much was done. For applications that own the loop. A
  /// std::bad_alloc from a poller's work() ends that poller's turn and tells the poller; one from a task
  /// tells all pollers, because whose task it was is not known. No std::bad_alloc leaves the engine.
  std::size_t poll(Time now);
  /// Engine thread: tells every poller in its next turn that the process had no memory for something that all
  /// of them rest on.
  void tell_out_of_memory();

  /// One turn and, if there was nothing to do for as long as the idle strategy says, a wait of at most
  /// `longest`.
  void turn(Duration longest);

  /// For an application that watches a descriptor: turns as long as there is something to do, but not for
  /// ever. Until when the application may wait then, if the waiter's descriptor does not become readable; a
  /// time that has passed: there is more to do.
  Time run_while_busy();

  /// Runs turns until stop(). Work posted before stop() is done before run returns.
  void run();
  /// Any thread.
  void stop() noexcept;

 private:
  struct Entry {
    Poller* poller;
    bool lacked_memory = false;  ///< and has not been told yet
  };

  std::size_t run_tasks();
  std::size_t give_turn(std::size_t index, Time now);
  Time announce_wait(Time latest);
  void block_until_due(Time latest);
  void pause();

  struct Queue;
  Waiter& waiter_;
  Idle idle_;
  std::vector<Entry> pollers_;
  std::unique_ptr<Queue> queue_;
  std::atomic<bool> stopping_ = false;
  SleepHandshake<> sleep_;
  bool prepared_ = false;  ///< run_while_busy() has let the application wait
};

}  // namespace rdmc::engine
