// The engine that carries trunks from one address of this host: a fabric, a thread that polls it and sleeps
// when there is nothing to do, and the trunks on it. A process has one for each of its addresses that it
// uses (one for all of loopback), commonly one in all, which all its sockets share. They stay.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"
#include "lib/group/fabric_agent.hpp"
#include "lib/socket/trunk.hpp"

namespace rdmc::sockets {

struct CarrierOptions {
  std::string fabric = "auto", device = {};
  bool encrypt = false;
};

class Carrier final : private engine::Agent {
 public:
  /// `lock` guards all sockets. Errors: those of opening the fabric; resource_limit.
  static Result<std::unique_ptr<Carrier>> open(const CarrierOptions& options, const Address& address,
                                               FairMutex& lock);
  /// As stop().
  ~Carrier() override;
  /// Ends the thread. Not with the lock. Trunks are lost; what has not arrived by then is lost, too.
  void stop();

  /// "shm+udp", …
  const std::string& fabric_name() const { return opened_.name; }

  /// Any thread: runs `task` on the engine's, in order.
  void post(engine::Engine::Task task);
  /// Any thread: connections have something to say.
  void kick();

  /// Any thread but the engine's: memory as the fabric sends it best. Errors: those of Fabric::make_arena.
  Result<memory::Arena> make_arena(std::size_t bytes);
  /// The engine's thread; errors: those of Trunk::create.
  Result<std::shared_ptr<Trunk>> make_trunk(std::shared_ptr<Mux> mux);
  /// The engine's thread, with the lock: all that was said has arrived.
  bool is_quiet() const;

 private:
  explicit Carrier(FairMutex& lock) : lock_(lock) {}
  std::size_t work(Time now) override;
  void run();
  bool run_while_memory_lasts();

  FairMutex& lock_;
  fabric::OpenedFabric opened_;
  std::unique_ptr<group::FabricAgent> agent_;
  std::unique_ptr<engine::Engine> engine_;
  std::vector<std::shared_ptr<Trunk>> trunks_;  // the engine's
  std::atomic<bool> kicked_ = false;
  std::thread thread_;
};

}  // namespace rdmc::sockets
