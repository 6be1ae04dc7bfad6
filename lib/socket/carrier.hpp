// The part of the sockets that runs on one fabric thread. It has the trunks between one address of this host
// and the processes that sockets are connected with, and the poller that serves these trunks on the thread's
// engine. A process has one carrier for each of its addresses that sockets use, and one for all loopback
// addresses. Most processes have one carrier. A carrier stays until the stack ends.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "controlplane/peer/context.hpp"
#include "lib/socket/trunk.hpp"

namespace rdmc::sockets {

/// Returns the address of the fabric for connections at the local address `local`. Any process on this host
/// may dial any of the 16 million IPv4 loopback addresses, and one fabric serves them all.
Address fabric_address(Address local);

class Carrier final : private engine::Poller {
 public:
  /// Opens a carrier. `lock` is the sockets' lock. Errors: those of FabricThread::open.
  static Result<std::unique_ptr<Carrier>> open(peer::Context& context,
                                               const peer::FabricThreadOptions& options, FairMutex& lock);
  /// Calls stop().
  ~Carrier() override;
  /// Leaves the fabric thread. All trunks are lost, with everything that has not arrived by then. Must be
  /// called without the lock, on any thread except the fabric thread.
  void stop();

  /// The human-readable name of the fabric, for example "shm+udp".
  const std::string& fabric_name() const { return thread_->fabric_name(); }

  /// Runs `task` on the fabric thread. Tasks run in order. Any thread except the fabric thread may call this.
  void post(engine::Engine::Task task) { thread_->post_when_room(std::move(task)); }
  /// Tells the fabric thread that connections have something to send. Any thread may call this.
  void kick();

  /// Makes memory from which the fabric sends fastest. Any thread except the fabric thread may call this.
  /// Errors: those of Fabric::make_arena.
  Result<memory::Arena> make_arena(std::size_t bytes) { return thread_->make_arena(bytes); }
  /// Makes a trunk for the connections of `mux`. Must be called on the fabric thread. Errors: those of
  /// Trunk::create.
  Result<std::shared_ptr<Trunk>> make_trunk(std::shared_ptr<Mux> mux);
  /// True if everything that was sent has arrived. Must be called on the fabric thread, with the lock.
  bool is_quiet() const;

 private:
  Carrier(std::shared_ptr<peer::FabricThread> thread, FairMutex& lock)
      : thread_(std::move(thread)), lock_(lock) {}
  std::size_t work(Time now) override;
  Time next_deadline() const override { return kicked_ ? Time{} : Time::never(); }
  void on_out_of_memory() override { lose_all(ENOBUFS); }
  void lose_all(int error);

  std::shared_ptr<peer::FabricThread> thread_;  // set until stop()
  FairMutex& lock_;
  std::vector<std::shared_ptr<Trunk>> trunks_;  // used by the fabric thread only
  std::atomic<bool> kicked_ = false;
};

}  // namespace rdmc::sockets
