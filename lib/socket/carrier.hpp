// The sockets' part of a fabric thread: the trunks between one address of this host and the processes that
// sockets are connected with, and their turns on the thread's engine. A process has one for each of its
// addresses that sockets use (one for all of loopback), commonly one in all. They stay.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "controlplane/peer/context.hpp"
#include "lib/socket/trunk.hpp"

namespace rdmc::sockets {

/// Where the fabric for connections at this address of ours is. Loopback has 16 million addresses that
/// anybody on this host may dial, and one fabric reaches them all.
Address fabric_address(Address local);

class Carrier final : private engine::Poller {
 public:
  /// `lock` guards all sockets. Errors: those of FabricThread::open.
  static Result<std::unique_ptr<Carrier>> open(peer::Context& context,
                                               const peer::FabricThreadOptions& options, FairMutex& lock);
  /// As stop().
  ~Carrier() override;
  /// Leaves the thread. Not with the lock; any other thread. Trunks are lost, and so is what has not arrived
  /// by then.
  void stop();

  /// "shm+udp", …
  const std::string& fabric_name() const { return thread_->fabric_name(); }

  /// Any thread but the engine's: runs `task` on the engine's, in order.
  void post(engine::Engine::Task task) { thread_->post_when_room(std::move(task)); }
  /// Any thread: connections have something to say.
  void kick();

  /// Any thread but the engine's: memory as the fabric sends it best. Errors: those of Fabric::make_arena.
  Result<memory::Arena> make_arena(std::size_t bytes) { return thread_->make_arena(bytes); }
  /// The engine's thread; errors: those of Trunk::create.
  Result<std::shared_ptr<Trunk>> make_trunk(std::shared_ptr<Mux> mux);
  /// The engine's thread, with the lock: all that was said has arrived.
  bool is_quiet() const;

 private:
  Carrier(std::shared_ptr<peer::FabricThread> thread, FairMutex& lock)
      : thread_(std::move(thread)), lock_(lock) {}
  std::size_t work(Time now) override;
  Time next_deadline() const override { return kicked_ ? Time{} : Time::never(); }
  void on_out_of_memory() override { lose_all(ENOBUFS); }
  void lose_all(int error);

  std::shared_ptr<peer::FabricThread> thread_;  // until stop()
  FairMutex& lock_;
  std::vector<std::shared_ptr<Trunk>> trunks_;  // the engine's
  std::atomic<bool> kicked_ = false;
};

}  // namespace rdmc::sockets
