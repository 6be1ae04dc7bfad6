// The poll loop. One thread gives every poller its turn. If no poller has work, the thread spins for a short
// time. Then it blocks until a packet arrives, a deadline passes, or another thread requests something.
// Protocol code needs no locks, because only this thread touches its state. Other threads give work to this
// thread through a bounded queue.
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

/// An object that the engine calls in each turn. All functions are called on the engine's thread only, and
/// they must never block.
class Poller {
 public:
  virtual ~Poller() = default;
  /// Does the work that is due. Returns the amount of work, or 0 if there was none.
  virtual std::size_t work(Time now) = 0;
  /// The time at which work() must be called even if nothing else happens.
  virtual Time next_deadline() const { return Time::never(); }
  /// Called when the process had no memory for something that this poller or a task needed. The poller must
  /// end, with an error, everything that may be incomplete because of this. If this function throws
  /// std::bad_alloc, the engine calls it again later. The engine never calls it while there is enough
  /// memory.
  virtual void on_out_of_memory() {}
};

/// The object on which the engine blocks.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual void wait(Time deadline) = 0;
  virtual void wake() noexcept = 0;  ///< may be called on any thread
  virtual void pause() {}            ///< called between two turns while the engine spins
  // The contracts of these two functions are the same as in fabric::Fabric.
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

  /// Adds a poller. Must be called on the engine's thread, or before the engine runs. The poller must outlive
  /// the engine or be removed.
  void add(Poller& poller) { pollers_.push_back({.poller = &poller}); }
  void remove(Poller& poller) {
    std::erase_if(pollers_, [&](const Entry& entry) { return entry.poller == &poller; });
  }

  /// May be called on any thread. Runs `task` on the engine's thread. Tasks run in the order in which they
  /// were posted. Errors: would_block if the queue is full.
  Result<void> post(Task task);
  /// May be called on any thread. Reports that a poller has something to do. Before this call, that poller's
  /// next_deadline() must already return a time in the past. If the engine sleeps or is about to sleep, it
  /// wakes up. This costs less than a task.
  void notify() noexcept {
    if (sleep_.must_wake()) waiter_.wake();
  }

  /// Takes one turn without blocking, and returns the amount of work done. This is for applications that own
  /// the loop. A std::bad_alloc from a poller's work() ends that poller's turn, and on_out_of_memory()
  /// reports it to that poller. A std::bad_alloc from a task is reported to all pollers, because the engine
  /// does not know to which of them the task belongs. No std::bad_alloc leaves the engine.
  std::size_t poll(Time now);
  /// Must be called on the engine's thread. In its next turn, every poller learns through on_out_of_memory()
  /// that the process had no memory for something that all of them depend on.
  void tell_out_of_memory();

  /// Takes one turn. If there has been no work for the time that the idle strategy defines, the function then
  /// waits for at most `longest`.
  void turn(Duration longest);

  /// For an application that watches a descriptor. Takes turns while there is work, up to a fixed number of
  /// turns. Returns the time until which the application may wait, unless the waiter's descriptor becomes
  /// readable earlier. A time in the past means that there is more work.
  Time run_while_busy();

  /// Takes turns until stop() is called. Work that was posted before stop() is done before run() returns.
  void run();
  /// May be called on any thread.
  void stop() noexcept;

 private:
  struct Entry {
    Poller* poller;
    bool lacked_memory = false;  ///< on_out_of_memory() is due and has not succeeded yet
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
  SleepHandshake sleep_;
  /// True if the last run_while_busy() prepared a wait of the application, and finish_wait() is still due.
  bool prepared_ = false;
};

}  // namespace rdmc::engine
