// The thread that moves a process's bytes. It exists so that everything in a process that needs a network -
// groups, sockets, memberships, transfers - runs on one fabric and one engine, instead of each having its
// own. A FabricThread opens the fabric, owns it together with its engine, and runs the engine on a thread of
// its own with all signals blocked, or lets the application's thread run it. Pollers are added to the engine
// and removed again by those who share the thread (see context.hpp); the last owner ends it.
//
// When memory runs out, the thread does not end: every poller is told (engine::Poller::on_out_of_memory), and
// gives up by name what may lack a piece.
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
  std::string fabric = "auto";  ///< one of fabric::fabric_names()
  /// The address of this host to use. Port 0 is RoCE's 4791 where that is free, and otherwise any.
  Address address = Address::ipv4(127, 0, 0, 1, 0);
  std::string device = {};  ///< for fabrics that need one named (dpdk)
  bool encrypt = false;     ///< AES-256-GCM on everything that leaves this host
  std::uint8_t dscp = 0;
  /// An application's threads run beside the engine's, commonly on the same cores, so the engine offers its
  /// core between two looks.
  engine::IdleStrategy idle = {.offers_core = true};
  /// False: the thread that opens it calls turn(), and is the one that the engine's work happens on.
  bool own_thread = true;

  friend bool operator==(const FabricThreadOptions&, const FabricThreadOptions&) = default;
};

class FabricThread {
 public:
  using Task = engine::Engine::Task;

  /// Errors: those of fabric::open_reachable_fabric; resource_limit (no thread, no entropy).
  static Result<std::shared_ptr<FabricThread>> open(const FabricThreadOptions& options);
  /// Runs what was posted, then ends the thread. Pollers have been removed before. Not on the thread itself.
  ~FabricThread();
  FabricThread(const FabricThread&) = delete;
  FabricThread& operator=(const FabricThread&) = delete;

  // -- any thread --

  /// True on the thread that the engine's work happens on.
  bool is_current() const { return owner_.load() == std::this_thread::get_id(); }
  /// True inside what the engine does on that thread: an upcall or a task. Nobody may wait for a turn there.
  bool is_in_turn() const { return is_current() && (options_.own_thread || is_in_turn_); }
  /// Runs `task` on the thread, in the order of posting. Errors: would_block (the queue is full).
  Result<void> post(Task task) { return engine_->post(std::move(task)); }
  /// A poller has something to do: see engine::Engine::notify.
  void notify() noexcept { engine_->notify(); }
  /// As post(), and waits for room in the queue. `task` must not be posted from the thread itself.
  void post_when_room(Task task);
  /// Runs `function` on the thread - at once, if that is the calling one - and waits for its result. A
  /// function whose result is a Result answers resource_limit when it meets std::bad_alloc; another one
  /// throws it to the caller. Without a thread of its own, nobody waits for turns that the application
  /// may not give: from another thread than the one that drives it, a Result is invalid_argument, unless
  /// let_others_wait() says otherwise. A function with another result must not be called from there, because
  /// that call would wait until the application gives a turn, perhaps for ever.
  template <typename Function>
  std::invoke_result_t<Function> call(Function function);
  void wake() noexcept { poller_->wake(); }
  /// Without a thread of its own: the driving thread gives turns now, and does so until nobody waits for one
  /// any more.
  void let_others_wait(bool may) { others_may_wait_ = may; }

  /// The fabric that was chosen ("udp", "shm+udp", ...), and why, for people.
  const std::string& fabric_name() const { return opened_.name; }
  const std::string& reason() const { return opened_.reason; }
  const FabricThreadOptions& options() const { return options_; }
  /// Errors: those of Fabric::make_arena.
  Result<memory::Arena> make_arena(std::size_t bytes);

  // -- the thread itself; with own_thread, also within call() and posted tasks --

  fabric::Fabric& fabric() { return *opened_.fabric; }
  /// The software endpoint; null when a NIC or shared memory alone is used.
  const fabric::SoftwareFabric* software() const { return opened_.software; }
  engine::Engine& engine() { return *engine_; }
  /// The fabric's poller runs first in each turn. This is how much it found to do in this turn.
  std::size_t last_progress() const { return poller_->last_progress(); }
  /// Without a thread of its own: one turn, and if there was nothing to do a wait of at most `longest`. After
  /// descriptor() was called, it waits first, and then gives turns while there is something to do, at most a
  /// fixed number of them. Errors: invalid_argument (it has a thread of its own; another thread; an upcall).
  Result<void> turn(Duration longest);
  /// Without a thread of its own: what an application's loop (epoll, poll, io_uring) can watch. It is
  /// readable while turn() has something to do. It is readable at first. Errors: invalid_argument (it has a
  /// thread of its own; another thread); unsupported (the fabric shows nothing); those of making it.
  Result<int> descriptor();

 private:
  /// Tells all others when the fabric itself lacked memory.
  class Poller final : public fabric::FabricPoller {
   public:
    explicit Poller(FabricThread& owner) : FabricPoller(owner.fabric()), owner_(owner) {}
    void on_out_of_memory() override { owner_.engine().tell_out_of_memory(); }

   private:
    FabricThread& owner_;
  };

  FabricThread() = default;
  /// The driving thread is inside the engine's work as long as this lives.
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
  /// Errors: invalid_argument.
  Result<void> check_driver() const;
  /// The application's thread has given the engine something to do, outside of its turns.
  void note_work() {
    if (loop_) loop_->readable_at({});
  }

  FabricThreadOptions options_;
  fabric::OpenedFabric opened_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<engine::Engine> engine_;
  std::optional<engine::LoopDescriptor> loop_;
  bool is_in_turn_ = false;  ///< the driving thread's; without a thread of its own
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
