// The implementation of ControlLoop, only for sources of the control plane. It includes Boost.Asio, which
// takes seconds to compile. Everything here runs on the loop's thread, except where a comment says otherwise.
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

/// An object with pending operations in the loop. These operations keep the object alive, so the loop must be
/// able to end them.
class LoopMember {
 public:
  virtual ~LoopMember() = default;
  /// Must cancel all operations and report Errc::cancelled to the handlers that wait.
  virtual void on_loop_stop() = 0;
};

class LoopCore : public std::enable_shared_from_this<LoopCore> {
 public:
  /// Throws boost::system::system_error if the system has no descriptors left. ControlLoop::create() catches
  /// it.
  LoopCore();

  // The functions up to on_loop_thread() may be called from any thread.
  bool post(ControlLoop::Task task);
  void run_and_wait(ControlLoop::Task task);
  void stop();
  bool on_loop_thread() const {
    return std::this_thread::get_id() == thread_id_.load(std::memory_order_relaxed);
  }

  /// The body of the loop's thread.
  void run();

  /// Adds a member. If the loop is stopping, a task of its own calls the member's on_loop_stop().
  void add(const std::shared_ptr<LoopMember>& member);
  void remove(LoopMember* member) { members_.erase(member); }

  boost::asio::io_context& context() { return context_; }
  /// The one receive buffer for all connections. An idle connection therefore holds no buffer.
  std::span<std::byte> scratch() { return scratch_; }

  /// Must not be called while the loop stops. No member begins an operation then.
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
