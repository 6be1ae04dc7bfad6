// The implementation of ControlLoop. Only source files of the control plane may include this header. It
// includes Boost.Asio, which takes seconds to compile. Everything here runs on the loop's thread, unless a
// comment says otherwise.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/connect/resolver.hpp"

namespace rdmc::control {

/// An object with pending operations in the loop. These operations keep the object alive. When the loop
/// stops, it must be able to end them.
class LoopMember {
 public:
  virtual ~LoopMember() = default;
  /// Called when the loop stops. Must cancel all operations and report Errc::cancelled to the handlers that
  /// wait.
  virtual void on_loop_stop() = 0;
};

class LoopCore : public std::enable_shared_from_this<LoopCore> {
 public:
  /// Throws boost::system::system_error if the system has no descriptors left. ControlLoop::create() catches
  /// this exception.
  LoopCore();

  // The following functions, up to on_loop_thread(), may be called from any thread.
  bool post(ControlLoop::Task task);
  void run_and_wait(ControlLoop::Task task);
  void stop();
  bool on_loop_thread() const {
    return std::this_thread::get_id() == thread_id_.load(std::memory_order_relaxed);
  }

  /// The function that the loop's thread runs.
  void run();

  /// Adds a member. If the loop is already stopping, on_loop_stop() of the member is called in a later task.
  void add(const std::shared_ptr<LoopMember>& member);
  void remove(LoopMember* member) { members_.erase(member); }

  boost::asio::io_context& context() { return context_; }
  /// The receive buffer that all connections share. So an idle connection needs no buffer.
  std::span<std::byte> scratch() { return scratch_; }

  /// Must not be called while the loop stops. Members begin no operation at that time.
  Resolver& resolver();
  void resolved(std::uint64_t query, Result<std::vector<Address>> result) {
    if (resolver_) resolver_->finish(query, std::move(result));
  }
  bool stopping() const { return stopping_; }

  std::thread thread;

 private:
  void end_members();

  boost::asio::io_context context_{1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::atomic<std::thread::id> thread_id_{};
  std::map<LoopMember*, std::weak_ptr<LoopMember>> members_;
  bool stopping_ = false;
  std::optional<Resolver> resolver_;
  std::array<std::byte, 64 * 1024> scratch_;

  std::mutex mutex_;
  bool accepting_ = true;  // Guarded by mutex_.
  std::atomic<bool> ended_ = false;
};

}  // namespace rdmc::control
