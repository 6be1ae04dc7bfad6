// The objects that everything in one process shares: its fabric threads, its control loop, and its
// connections to other processes. The process needs no more of them, however much runs in it. A program uses
// the Context of its process and needs no other one. A test makes one Context for each process that it plays.
// All functions may be called from any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "controlplane/connect/identity.hpp"
#include "controlplane/peer/fabric_thread.hpp"
#include "controlplane/peer/peers.hpp"

namespace rdmc::peer {

struct ContextOptions {
  /// The largest number of fabric threads for each set of FabricThreadOptions, at least 1. A caller gets the
  /// thread that has the fewest users. A request with port 0 may get a thread with any port. A request with
  /// another port gets the one thread that has this port.
  std::size_t threads = 1;
};

class Context {
 public:
  explicit Context(const ContextOptions& options = {}) : options_(options) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The Context of this process. After fork(), the child gets a Context of its own, because none of its
  /// parent's threads run in the child.
  static std::shared_ptr<Context> of_process();

  /// Returns a thread that all callers with the same options share. It ends with the last of its users.
  /// Errors: those of FabricThread::open; invalid_argument if own_thread is false, because the application's
  /// thread drives a FabricThread for one owner only.
  Result<std::shared_ptr<FabricThread>> fabric_thread(const FabricThreadOptions& options);

  /// Sets ContextOptions::threads for later calls. 0 counts as 1.
  void set_most_threads(std::size_t most);
  /// The number of fabric threads that are in use.
  std::size_t threads() const;
  /// True if the caller runs on one of these fabric threads.
  bool is_on_fabric_thread() const;

  /// Returns the control loop of the process, which ends with its last user. The last reference must not be
  /// released on the loop's own thread. Errors: those of ControlLoop::create.
  Result<std::shared_ptr<control::ControlLoop>> loop();
  /// Returns the Peers for these credentials, on that loop. All callers with the same credentials share them,
  /// even if they name the same files by different paths. The Peers keep the loop alive. Errors: those of
  /// loop(), control::security_of and Peers::create.
  Result<std::shared_ptr<Peers>> peers(const control::Identity& identity);

 private:
  struct KeptPeers {
    control::Identity identity;
    std::weak_ptr<Peers> peers;
  };
  /// Returns null if there are none. The caller must hold the mutex.
  std::shared_ptr<Peers> known_peers(const control::Identity& identity);

  mutable std::mutex mutex_;
  ContextOptions options_;
  std::vector<std::weak_ptr<FabricThread>> threads_;
  std::weak_ptr<control::ControlLoop> loop_;
  std::vector<KeptPeers> peers_;
};

}  // namespace rdmc::peer
