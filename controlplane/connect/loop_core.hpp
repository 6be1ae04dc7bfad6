// The inside of a ControlLoop, for sources of the control plane alone: it brings in Boost.Asio, which takes
// seconds to compile. Everything here runs on the loop's thread, except what says otherwise.
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

/// Something with operations pending in the loop. They hold it alive, so the loop must be able to end them.
class LoopMember {
 public:
  virtual ~LoopMember() = default;
  /// Cancel all operations; report Errc::cancelled to whoever waits.
  virtual void on_loop_stop() = 0;
};

class LoopCore : public std::enable_shared_from_this<LoopCore> {
 public:
  /// Throws boost::system::system_error when the system has no descriptors left; ControlLoop::create()
  /// catches.
  LoopCore();

  // Any thread.
  bool post(ControlLoop::Task task);
  void run_and_wait(ControlLoop::Task task);
  void stop();
  bool on_loop_thread() const {
    return std::this_thread::get_id() == thread_id_.load(std::memory_order_relaxed);
  }

  /// The body of the thread.
  void run();

  /// A member that joins while the loop stops is told so in a task of its own.
  void add(const std::shared_ptr<LoopMember>& member);
  void remove(LoopMember* member) { members_.erase(member); }

  boost::asio::io_context& context() { return context_; }
  /// One receive buffer for all connections: an idle one holds none.
  std::span<std::byte> scratch() { return scratch_; }

  /// Not while the loop stops: no member begins anything then.
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
  bool accepting_ = true;  // guarded by mutex_
  std::atomic<bool> ended_ = false;
};

}  // namespace rdmc::control
