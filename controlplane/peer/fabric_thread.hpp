// The thread that runs the fabric of a process. Everything in a process that needs a network (groups,
// sockets, memberships, transfers) shares one fabric and one engine. A FabricThread opens the fabric and owns
// it together with its engine. It runs the engine on a thread of its own with all signals blocked, or lets
// the application's thread run it. Those who share the thread add pollers to the engine and remove them again
// (see context.hpp). The thread ends with its last owner.
//
// If memory runs out, the thread does not end. It informs every poller (engine::Poller::on_out_of_memory).
// The poller must then end, with an error, everything that may be incomplete.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/no_memory.hpp"
#include "dataplane/engine/engine.hpp"
#include "dataplane/engine/loop_descriptor.hpp"
#include "dataplane/fabric/fabric_poller.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"

namespace rdmc::peer {

struct FabricThreadOptions {
  std::string fabric = "auto";  ///< One of fabric::fabric_names().
  /// The address of this host to use. Port 0 means RoCE's port 4791 if it is free, and otherwise any free
  /// port.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  std::string device = {};  ///< The device, for fabrics that need one (dpdk).
  bool encrypt = false;     ///< True if everything that leaves this host is encrypted with AES-256-GCM.
  std::uint8_t dscp = 0;
  /// An application's threads commonly run on the same cores as the engine. By default, the engine therefore
  /// offers its core to them between two turns.
  engine::IdleStrategy idle = {.offers_core = true};
  /// If false, there is no thread of its own. The thread that calls open() must call turn(), and does the
  /// engine's work.
  bool own_thread = true;

  friend bool operator==(const FabricThreadOptions&, const FabricThreadOptions&) = default;
};

class FabricThread {
 public:
  using Task = engine::Engine::Task;

  /// Errors: those of fabric::open_reachable_fabric; resource_limit (no thread, no entropy).
  static Result<std::shared_ptr<FabricThread>> open(const FabricThreadOptions& options);
  /// Runs the tasks that were posted, then ends the thread. All pollers must have been removed before. Must
  /// not run on the thread itself.
  ~FabricThread();
  FabricThread(const FabricThread&) = delete;
  FabricThread& operator=(const FabricThread&) = delete;

  // -- The functions of this section may be called from any thread. --

  /// True on the thread that does the engine's work.
  bool is_current() const { return owner_.load() == std::this_thread::get_id(); }
  /// True inside the engine's work on that thread, that is, in an upcall or a task. Nothing may wait for a
  /// turn there.
  bool is_in_turn() const { return is_current() && (options_.own_thread || is_in_turn_); }
  /// Runs `task` on the thread, in the order of posting. Errors: would_block if the queue is full.
  Result<void> post(Task task) { return engine_->post(std::move(task)); }
  /// Tells the engine that a poller has something to do: see engine::Engine::notify.
  void notify() noexcept { engine_->notify(); }
  /// Like post(), but waits until there is space in the queue. Must not be called on the thread itself.
  void post_when_room(Task task);
  /// Runs `function` on the thread and waits for its result. Runs it at once if the caller is on that thread.
  /// If `function` throws std::bad_alloc, call() returns resource_limit if the result type is a Result, and
  /// otherwise throws the exception. Without a thread of its own, a caller on another thread could wait for
  /// ever, because the application may not call turn(). In this case call() returns invalid_argument if the
  /// result type is a Result, unless let_others_wait(true) is in force. A function with another result type
  /// must not be called in this case.
  template <typename Function>
  std::invoke_result_t<Function> call(Function function);
  void wake() noexcept { poller_->wake(); }
  /// For a FabricThread without a thread of its own. Sets whether other threads may wait in call(). While
  /// `may` is true, the driving thread must call turn() until no thread waits.
  void let_others_wait(bool may) { others_may_wait_ = may; }

  /// The name of the chosen fabric ("udp", "shm+udp", ...), and a text for the user with the reason for the
  /// choice.
  const std::string& fabric_name() const { return opened_.name; }
  const std::string& reason() const { return opened_.reason; }
  const FabricThreadOptions& options() const { return options_; }
  /// Errors: those of Fabric::make_arena.
  Result<memory::Arena> make_arena(std::size_t bytes);

  // -- The functions of this section must be called on the thread itself: without own_thread by its driver,
  // with own_thread in pollers, in call() and in posted tasks. --

  fabric::Fabric& fabric() { return *opened_.fabric; }
  /// The software endpoint. Null if only a NIC or shared memory is used.
  const fabric::SoftwareFabric* software() const { return opened_.software; }
  engine::Engine& engine() { return *engine_; }
  /// The amount of work that the fabric's poller found in this turn. It runs first in each turn.
  std::size_t last_progress() const { return poller_->last_progress(); }
  /// For a FabricThread without a thread of its own. Takes one turn, and if there was nothing to do, waits
  /// for at most `longest`. After descriptor() was called, it waits first, and then takes turns while there
  /// is something to do, up to a fixed number. Errors: invalid_argument if there is a thread of its own, if
  /// another thread calls, or inside an upcall.
  Result<void> turn(Duration longest);
  /// For a FabricThread without a thread of its own. Returns a descriptor that an application's event loop
  /// (epoll, poll, io_uring) can watch. It is readable at first, and whenever turn() has something to do.
  /// Errors: invalid_argument if there is a thread of its own or if another thread calls, unsupported if the
  /// fabric has no descriptors to watch, and the errors of making the descriptor.
  Result<int> descriptor();

 private:
  /// The fabric's poller. It informs all other pollers if the fabric itself lacks memory.
  class Poller final : public fabric::FabricPoller {
   public:
    explicit Poller(FabricThread& owner) : FabricPoller(owner.fabric()), owner_(owner) {}
    void on_out_of_memory() override { owner_.engine().tell_out_of_memory(); }

   private:
    FabricThread& owner_;
  };

  FabricThread() = default;
  /// While this object exists, the driving thread is inside the engine's work.
  class InTurn {
   public:
    explicit InTurn(bool& flag) : flag_(flag), before_(std::exchange(flag, true)) {}
    ~InTurn() { flag_ = before_; }
    InTurn(const InTurn&) = delete;
    InTurn& operator=(const InTurn&) = delete;

   private:
    bool& flag_;
    const bool before_;
  };
  /// Checks that the calling thread is the driver and that there is no thread of its own. Errors:
  /// invalid_argument.
  Result<void> check_driver() const;
  /// Called when the application's thread has given the engine something to do outside of a turn.
  void note_work() {
    if (loop_) loop_->readable_at({});
  }

  FabricThreadOptions options_;
  fabric::OpenedFabric opened_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<engine::Engine> engine_;
  std::optional<engine::LoopDescriptor> loop_;
  bool is_in_turn_ = false;  ///< Used by the driving thread, without own_thread.
  std::atomic<bool> others_may_wait_{false};
  std::atomic<std::thread::id> owner_ = std::this_thread::get_id();
  std::thread thread_;
};

template <typename Function>
std::invoke_result_t<Function> FabricThread::call(Function function) {
  using Value = std::invoke_result_t<Function>;
  const auto guarded = [&]() -> Value {
    if constexpr (IsResult<Value>)
      return or_no_memory(function);
    else
      return function();
  };
  if (is_current()) {
    note_work();
    const InTurn inside(is_in_turn_);
    return guarded();
  }
  if constexpr (IsResult<Value>) {
    if (!options_.own_thread && !others_may_wait_)
      return fail(Errc::invalid_argument, "only the thread that drives it may ask for that");
  }
  std::packaged_task<Value()> task(guarded);
  auto result = task.get_future();
  post_when_room([&task] { task(); });
  return result.get();
}

}  // namespace rdmc::peer
