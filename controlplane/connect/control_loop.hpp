// The one thread on which the control plane runs. Sockets, timers and handlers of channels all run on this
// thread, so sessions need no locks. The thread sleeps in epoll while nothing happens. The engines of the
// data plane have threads of their own and communicate with this thread by post(). The creator of the loop
// owns it. Channels, listeners and timers may exist longer than the loop. They are closed when the loop
// stops.
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

/// A timer that expires once, unless it is destroyed first. Move-only. It may be destroyed in its own handler
/// and on any thread. On a thread other than the loop's, the destructor waits while the handler is running.
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

  /// Starts the loop's thread, with all signals blocked. Errors: resource_limit (threads, descriptors).
  static Result<std::unique_ptr<ControlLoop>> create();
  ControlLoop(const ControlLoop&) = delete;
  ControlLoop& operator=(const ControlLoop&) = delete;
  /// Calls stop() and waits for the end of the thread. Must not run on the loop's own thread.
  ~ControlLoop();

  /// Runs the tasks that were posted before, ends every channel and pending connect with Errc::cancelled,
  /// closes every listener, and ends the thread. May be called from any thread and any number of times.
  /// Returns at once.
  void stop();

  /// Runs `task` on the loop's thread, in the order of posting. Returns false and drops the task if the loop
  /// is stopping or has stopped.
  bool post(Task task);

  /// Runs `function` on the loop's thread and waits for its result. If this is the loop's thread, or if the
  /// loop has ended, runs `function` directly. The caller must not hold anything that a handler waits for,
  /// such as a lock.
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

  /// Returns a timer that runs `task` on the loop's thread after `delay`. May be called from any thread. If
  /// the loop has stopped, `task` is never run.
  [[nodiscard]] Timer after(Duration delay, Task task);

  bool on_loop_thread() const;

  /// Must be called only in the folders of the control plane.
  const std::shared_ptr<LoopCore>& core() const { return core_; }

 private:
  explicit ControlLoop(std::shared_ptr<LoopCore> core);
  void run_and_wait(Task task);
  std::shared_ptr<LoopCore> core_;
};

}  // namespace rdmc::control
