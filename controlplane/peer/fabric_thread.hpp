// The thread that runs the fabric of a process. All parts of a process that need a network (groups, sockets,
// memberships, transfers) share one fabric and one engine. A FabricThread opens the fabric, and owns the
// fabric and the engine. It runs the engine on a thread of its own with all signals blocked, or lets the
// application's thread run the engine. The parts that share the thread add pollers to the engine and remove
// them later (see context.hpp). The thread ends when its last owner releases it.
//
// If memory runs out, the thread does not end. It informs every poller (engine::Poller::on_out_of_memory). A
// poller must then end everything that may be incomplete, with an error.
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
  /// The address of this host that the fabric uses. If the port is 0, the fabric uses RoCE's port 4791 if
  /// that port is free, and otherwise any free port.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  std::string device = {};  ///< The device, for fabrics that need one (dpdk).
  bool encrypt = false;     ///< If true, everything that leaves this host is encrypted with AES-256-GCM.
  std::uint8_t dscp = 0;
  /// Other threads of the application often run on the same cores as the engine. By default, the engine
  /// therefore offers its core to other threads between two turns.
  engine::IdleStrategy idle = {.offers_core = true};
  /// If false, the FabricThread has no thread of its own. The application's thread that calls open() must
  /// also call turn(), which does the engine's work.
  bool own_thread = true;
  /// True if different threads drive the fabric, one after another. Must be set only if own_thread is false.
  /// See take_over().
  bool changes_threads = false;

  friend bool operator==(const FabricThreadOptions&, const FabricThreadOptions&) = default;
};

class FabricThread {
 public:
  using Task = engine::Engine::Task;

  /// Opens the fabric, and starts the thread unless own_thread is false. Errors: those of
  /// fabric::open_reachable_fabric; resource_limit (no thread, no entropy).
  static Result<std::shared_ptr<FabricThread>> open(const FabricThreadOptions& options);
  /// Runs the tasks that were posted, and then ends the thread. All pollers must have been removed before.
  /// The destructor must not run on the thread itself.
  ~FabricThread();
  FabricThread(const FabricThread&) = delete;
  FabricThread& operator=(const FabricThread&) = delete;

  // -- The functions of this section may be called from any thread. --

  /// True if the caller runs on the thread that does the engine's work.
  bool is_current() const { return owner_.load() == std::this_thread::get_id(); }
  /// True if the caller runs inside the engine's work on the thread that does this work, for example in an
  /// upcall or a task. Code that runs there must not wait for a turn of the engine.
  bool is_in_turn() const { return is_current() && (options_.own_thread || is_in_turn_); }
  /// Runs `task` on the thread, in the order of posting. Errors: would_block if the queue is full.
  Result<void> post(Task task) { return engine_->post(std::move(task)); }
  /// Informs the engine that a poller has something to do. See engine::Engine::notify.
  void notify() noexcept { engine_->notify(); }
  /// Posts `task` as post() does, but waits until there is space in the queue. Must not be called on the
  /// thread itself.
  void post_when_room(Task task);
  /// Runs `function` on the thread and waits for its result. If the caller is on that thread, runs `function`
  /// at once.
  /// If `function` throws std::bad_alloc and its result type is a Result, call() returns resource_limit. If
  /// its result type is another type, call() throws the exception.
  /// If own_thread is false, a caller on another thread could wait for ever, because the application may not
  /// call turn(). Such a call is allowed only while let_others_wait(true) is in force. At other times, call()
  /// returns invalid_argument if the result type is a Result. With another result type, call() must not be
  /// used then.
  template <typename Function>
  std::invoke_result_t<Function> call(Function function);
  void wake() noexcept { poller_->wake(); }
  /// Sets whether other threads may wait in call(). Must be called only if own_thread is false. While `may`
  /// is true, the driving thread must call turn() until no thread waits.
  void let_others_wait(bool may) { others_may_wait_ = may; }
  /// Makes the caller the driving thread. Must be called only if changes_threads is set. The caller must make
  /// sure that no other thread drives at the same time.
  void take_over() { owner_ = std::this_thread::get_id(); }

  /// The name of the chosen fabric ("udp", "shm+udp", ...), and the reason for the choice, as a text for the
  /// user.
  const std::string& fabric_name() const { return opened_.name; }
  const std::string& reason() const { return opened_.reason; }
  const FabricThreadOptions& options() const { return options_; }
  /// Makes an arena for the fabric. Errors: those of Fabric::make_arena.
  Result<memory::Arena> make_arena(std::size_t bytes, memory::Touch touch = memory::Touch::now);

  // -- The functions of this section must be called on the thread that runs the engine. With own_thread, this
  // means in pollers, in call() and in posted tasks. Without own_thread, it means on the driving thread. --

  fabric::Fabric& fabric() { return *opened_.fabric; }
  /// The software endpoint. Null if the fabric uses only a NIC or shared memory.
  const fabric::SoftwareFabric* software() const { return opened_.software; }
  engine::Engine& engine() { return *engine_; }
  /// The amount of work that the fabric's poller found in this turn. The fabric's poller runs first in each
  /// turn.
  std::size_t last_progress() const { return poller_->last_progress(); }
  /// Takes one turn. If there was nothing to do in it, waits for at most `longest`. Must be called only if
  /// own_thread is false. After descriptor() was called, turn() waits first, and then takes turns while there
  /// is something to do, up to a fixed number. Errors: invalid_argument if own_thread is true, if another
  /// thread calls, or if the caller is inside an upcall.
  Result<void> turn(Duration longest);
  /// Returns a descriptor that an application's event loop (epoll, poll, io_uring) can watch. Must be called
  /// only if own_thread is false. The descriptor is readable at first, and whenever turn() has something to
  /// do. Errors: invalid_argument if own_thread is true or if another thread calls; unsupported if the fabric
  /// has no descriptors to watch; and the errors of making the descriptor.
  Result<int> descriptor();

 private:
  /// The fabric's poller. If the fabric itself has no memory, this poller informs all other pollers.
  class Poller final : public fabric::FabricPoller {
   public:
    explicit Poller(FabricThread& owner) : FabricPoller(owner.fabric()), owner_(owner) {}
    void on_out_of_memory() override { owner_.engine().tell_out_of_memory(); }

   private:
    FabricThread& owner_;
  };

  FabricThread() = default;
  /// Marks that the driving thread is inside the engine's work, while this object exists.
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
  /// Checks that this FabricThread has no thread of its own and that the caller runs on the driving thread.
  /// Errors: invalid_argument.
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
  bool is_in_turn_ = false;  ///< Used only by the driving thread. Its value matters only without own_thread.
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
