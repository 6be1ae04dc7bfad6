#include "controlplane/connect/control_loop.hpp"

#include <pthread.h>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cassert>
#include <chrono>
#include <exception>
#include <future>
#include <new>
#include <system_error>

#include "controlplane/connect/loop_core.hpp"
#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::control {

LoopCore::LoopCore() : work_(std::in_place, context_.get_executor()) {}

bool LoopCore::post(ControlLoop::Task task) {
  const std::lock_guard lock(mutex_);
  // The task is posted while the lock is held. Otherwise it could be queued after the end of run(), and would
  // never be freed.
  if (!accepting_) return false;
  boost::asio::post(context_, std::move(task));
  return true;
}

void LoopCore::run_and_wait(ControlLoop::Task task) {
  if (on_loop_thread()) return task();
  std::promise<void> done;
  auto finished = done.get_future();
  const bool posted = post([&task, done = std::move(done)]() mutable {
    try {
      task();
      done.set_value();
    } catch (const std::bad_alloc&) {  // The exception is passed to the caller that waits.
      done.set_exception(std::current_exception());
    }
  });
  if (posted) return finished.get();
  ended_.wait(false);
  task();
}

void LoopCore::stop() {
  const std::lock_guard lock(mutex_);
  if (!accepting_) return;
  accepting_ = false;
  boost::asio::post(context_, [this] { end_members(); });
}

void LoopCore::end_members() {
  stopping_ = true;
  work_.reset();
  while (!members_.empty()) {
    const auto member = members_.begin()->second.lock();
    members_.erase(members_.begin());
    if (member) member->on_loop_stop();
  }
  // The resolver owns the handlers that wait for a name, and these handlers keep this object alive.
  resolver_.reset();
}

void LoopCore::add(const std::shared_ptr<LoopMember>& member) {
  if (stopping_) {
    boost::asio::post(context_, [member] { member->on_loop_stop(); });
  } else {
    members_.emplace(member.get(), member);
  }
}

Resolver& LoopCore::resolver() {
  if (!resolver_) resolver_.emplace(weak_from_this());
  return *resolver_;
}

void LoopCore::run() {
  thread_id_.store(std::this_thread::get_id());
  // A task that throws std::bad_alloc is dropped. The timers of the object to which the task belongs then end
  // that object. Other tasks are still run.
  for (bool has_run = false; !has_run;) {
    try {
      context_.run();
      has_run = true;
    } catch (const std::bad_alloc&) {
      continue;
    }
  }
  thread_id_.store({});
  ended_ = true;
  ended_.notify_all();
}

Result<std::unique_ptr<ControlLoop>> ControlLoop::create() {
  try {
    auto core = std::make_shared<LoopCore>();
    auto thread = start_signal_masked_thread("for the control loop", [raw = core.get()] {
      pthread_setname_np(pthread_self(), "rdmc-control");
      raw->run();
    });
    if (!thread) return std::unexpected(thread.error());
    core->thread = std::move(*thread);
    return std::unique_ptr<ControlLoop>(new ControlLoop(std::move(core)));
  } catch (const std::system_error& error) {  // boost::system::system_error derives from std::system_error.
    return fail(Errc::resource_limit, std::string("cannot start the control loop: ") + error.what());
  }
}

ControlLoop::ControlLoop(std::shared_ptr<LoopCore> core) : core_(std::move(core)) {}

ControlLoop::~ControlLoop() {
  assert(!on_loop_thread());
  stop();
  core_->thread.join();
}

void ControlLoop::stop() {
  core_->stop();
}
bool ControlLoop::post(Task task) {
  return core_->post(std::move(task));
}
void ControlLoop::run_and_wait(Task task) {
  core_->run_and_wait(std::move(task));
}
bool ControlLoop::on_loop_thread() const {
  return core_->on_loop_thread();
}

struct Timer::State final : LoopMember, std::enable_shared_from_this<Timer::State> {
  State(std::shared_ptr<LoopCore> loop, ControlLoop::Task run)
      : core(std::move(loop)), timer(core->context()), task(std::move(run)) {}

  void begin(std::chrono::steady_clock::time_point when) {
    if (!task) return;  // The timer was cancelled before it began.
    core->add(shared_from_this());
    try {
      timer.expires_at(when);
      timer.async_wait([self = shared_from_this()](boost::system::error_code) {
        // If the expiry is already queued in asio, a cancel cannot stop it any more. The task is then empty.
        if (ControlLoop::Task due = std::exchange(self->task, nullptr)) {
          self->core->remove(self.get());
          due();
        }
      });
    } catch (const std::bad_alloc&) {
      core->remove(this);
      throw;
    }
  }
  void on_loop_stop() override {
    core->remove(this);
    task = nullptr;
    timer.cancel();
  }

  std::shared_ptr<LoopCore> core;
  boost::asio::steady_timer timer;
  ControlLoop::Task task;
};

Timer ControlLoop::after(Duration delay, Task task) {
  const auto when = std::chrono::steady_clock::now() + std::chrono::nanoseconds(delay.ns);
  auto state = std::make_shared<Timer::State>(core_, std::move(task));
  // If there is no memory for the timer, it would never run. A caller on the loop's thread therefore gets
  // std::bad_alloc.
  if (on_loop_thread())
    state->begin(when);
  else
    core_->post([state, when] { state->begin(when); });
  return Timer(std::move(state));
}

void Timer::cancel() {
  if (!state_) return;
  const auto state = std::move(state_);
  // This copy keeps the core alive. Otherwise `state` may have the last reference to it.
  const auto core = state->core;
  core->run_and_wait([&] { state->on_loop_stop(); });
}

Timer::~Timer() {
  cancel();
}

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    state_ = std::move(other.state_);
  }
  return *this;
}

}  // namespace rdmc::control
