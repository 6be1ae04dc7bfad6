// The one thread on which the control plane runs. Sockets, timers and handlers of channels all run here, so
// sessions need no locks. The thread sleeps in epoll while nothing happens. The engines of the data plane
// have their own threads and reach this one through post(). The creator of the loop owns it. Channels,
// listeners and timers may outlive it. They are closed when it stops.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

class LoopCore;

/// A timer that runs once, unless it is destroyed first. Move-only. It may be destroyed in its own handler
/// and on any thread. On a thread other than the loop's, the destructor waits until the handler is not
/// running.
class Timer {
 public:
  Timer() = default;
  Timer(Timer&&) noexcept = default;
  Timer& operator=(Timer&& other) noexcept;
  ~Timer();

 private:
  friend class ControlLoop;
  struct State;
  explicit Timer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void cancel();
  std::shared_ptr<State> state_;
};

class ControlLoop {
 public:
  using Task = std::move_only_function<void()>;

  /// Starts the thread, with all signals blocked. Errors: resource_limit (threads, descriptors).
  static Result<std::unique_ptr<ControlLoop>> create();
  ControlLoop(const ControlLoop&) = delete;
  ControlLoop& operator=(const ControlLoop&) = delete;
  /// Calls stop() and waits for the thread. Must not run on the loop's own thread.
  ~ControlLoop();

  /// Runs the tasks that were posted before, ends every channel and pending connect with Errc::cancelled,
  /// closes every listener, and ends the thread. May be called from any thread and any number of times.
  /// Returns at once.
  void stop();

  /// Runs `task` on the loop's thread, in the order of posting. Returns false and drops the task if the loop
  /// is stopping or has stopped.
  bool post(Task task);

  /// Runs `function` on the loop's thread and waits for its result. Runs it directly if this is the loop's
  /// thread or if the loop has ended. The caller must not hold anything that a handler waits for, such as a
  /// lock.
  template <typename Function>
  auto call(Function function) {
    using Value = std::invoke_result_t<Function>;
    if constexpr (std::is_void_v<Value>) {
      run_and_wait([&] { function(); });
    } else {
      std::optional<Value> value;
      run_and_wait([&] { value.emplace(function()); });
      return std::move(*value);
    }
  }

  /// Runs `task` on the loop's thread after `delay`. May be called from any thread. A loop that has stopped
  /// never runs it.
  [[nodiscard]] Timer after(Duration delay, Task task);

  bool on_loop_thread() const;

  /// Only for the folders of the control plane.
  const std::shared_ptr<LoopCore>& core() const { return core_; }

 private:
  explicit ControlLoop(std::shared_ptr<LoopCore> core);
  void run_and_wait(Task task);
  std::shared_ptr<LoopCore> core_;
};

}  // namespace rdmc::control
