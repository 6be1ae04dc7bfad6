// The one thread on which the control plane lives: sockets, timers and handlers of channels all run here, so
// that sessions need no locks. It sleeps in epoll while nothing happens. Data-path engines have threads of
// their own and talk to this one through post(). Whoever creates the loop owns it; channels, listeners and
// timers may outlive it, and are closed when it stops.
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

/// A timer that runs once, unless it is destroyed first. Move-only; may be destroyed in its own handler, and
/// on any thread (elsewhere than on the loop's it waits until the handler is not running).
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
  /// stop(), then waits for the thread. Not on the loop's own thread.
  ~ControlLoop();

  /// Ends every channel, listener and pending connect with Errc::cancelled, runs what was posted before, and
  /// ends the thread. Any thread, any number of times; returns at once.
  void stop();

  /// Runs `task` on the loop's thread, in the order of posting. False, with the task dropped, once the loop
  /// stops.
  bool post(Task task);

  /// Runs `function` on the loop's thread and waits for its result; directly, when called there or when the
  /// loop has ended. The caller must not hold what a handler waits for.
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

  /// Runs `task` on the loop's thread after `delay`. Any thread. A loop that has stopped never runs it.
  [[nodiscard]] Timer after(Duration delay, Task task);

  bool on_loop_thread() const;

  /// For the folders of the control plane.
  const std::shared_ptr<LoopCore>& core() const { return core_; }

 private:
  explicit ControlLoop(std::shared_ptr<LoopCore> core);
  void run_and_wait(Task task);
  std::shared_ptr<LoopCore> core_;
};

}  // namespace rdmc::control
