// Decides which thread runs the engine of a rank program. While the program is inside a call, its own thread
// does that, because handing a message to another thread and back would take longer than the message itself.
// While the program computes, nobody would answer its peers. So if the program has taken no turn for a while,
// a thread of the driver runs the engine until the next call. The program's thread and that thread never run
// the engine at the same time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "controlplane/peer/fabric_thread.hpp"

namespace rdmc::replica {

class Driver {
 public:
  /// If the program has taken no turn for this time, the driver's own thread begins to run the engine. After
  /// the program has waited for long, this can take up to eleven times as long once.
  static constexpr Duration kAway = milliseconds(10);

  /// Opens the fabric. The caller becomes the program's thread. `options.own_thread` is ignored. Errors:
  /// those of FabricThread::open; resource_limit if there is no thread.
  static Result<std::unique_ptr<Driver>> open(peer::FabricThreadOptions options);
  /// Must be called on the program's thread, outside of a Call. All pollers must have been removed.
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// While it exists, the caller runs the engine, and may use everything that belongs to the fabric thread.
  /// Must not be nested. Without a driver, it does nothing.
  class Call {
   public:
    explicit Call(Driver* driver) : driver_(driver) {
      if (driver_) driver_->enter();
    }
    ~Call() {
      if (driver_) driver_->leave();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// Takes one turn of the engine. If there was nothing to do in it, waits for at most `longest`.
    void turn(Duration longest) {
      if (driver_) driver_->turn(longest);
    }

   private:
    Driver* const driver_;
  };

  /// The functions of FabricThread that need its thread may be called only in a Call, in pollers and in
  /// posted tasks.
  peer::FabricThread& thread() { return *thread_; }
  /// In a copy of the process that fork() has made inside of a Call: opens the fabric again, and goes on
  /// inside of the Call. The old fabric is never used and never closed. Errors: those of open().
  Result<void> open_again();
  /// Any thread. Runs `task` in the engine's next turn, whichever thread takes it.
  void post(engine::Engine::Task task) { thread_->post_when_room(std::move(task)); }

 private:
  explicit Driver(peer::FabricThreadOptions options) : options_(std::move(options)) {}
  Result<void> begin();
  void enter();
  void leave();
  void turn(Duration longest);
  void stand_in();
  bool is_wanted() const { return is_inside_ || stand_in_->is_ending; }

  const peer::FabricThreadOptions options_;
  std::shared_ptr<peer::FabricThread> thread_;
  // The engine belongs to the thread that has set its own flag and has then found the other flag unset. A
  // mutex would cost each call three times as much.
  std::atomic<bool> is_inside_ = false;   // the program is inside a call, or wants to be
  std::atomic<bool> stands_in_ = false;   // the driver's thread runs the engine, or wants to
  std::atomic<std::uint64_t> turns_ = 0;  // the program's turns; only the program's thread writes it
  /// The driver's thread. A copy of the process lacks the thread, and never destroys this object.
  struct StandIn {
    std::mutex mutex;
    std::condition_variable ending;
    std::atomic<bool> is_ending = false;  // changed with the mutex
    std::thread thread;
  };
  std::unique_ptr<StandIn> stand_in_;
};

}  // namespace rdmc::replica
