// The objects that all parts of one process share: its fabric threads, its control loop, and its connections
// to other processes. However many parts a process has, it needs these objects only once. A program uses the
// Context of its process and needs no other Context. A test makes one Context for each process that it
// simulates. All functions may be called from any thread.
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
  /// The largest number of fabric threads for each set of FabricThreadOptions, at least 1. If there are
  /// several threads, a caller gets the one with the fewest users. A request with port 0 may get a thread
  /// with any port. A request with another port gets the only thread that has this port.
  std::size_t threads = 1;
};

class Context {
 public:
  explicit Context(const ContextOptions& options = {}) : options_(options) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Returns the Context of this process. After fork(), the child gets a Context of its own, because none of
  /// its parent's threads run in the child.
  static std::shared_ptr<Context> of_process();

  /// Returns a thread that all callers with the same options share. The thread ends when its last user
  /// releases it. Errors: those of FabricThread::open; invalid_argument if own_thread is false, because the
  /// application's thread drives a FabricThread for one owner only.
  Result<std::shared_ptr<FabricThread>> fabric_thread(const FabricThreadOptions& options);

  /// Sets ContextOptions::threads for later calls. The value 0 means 1.
  void set_most_threads(std::size_t most);
  /// The number of fabric threads that are in use.
  std::size_t threads() const;
  /// True if the caller runs on one of the fabric threads of this Context.
  bool is_on_fabric_thread() const;

  /// Returns the control loop of the process. The loop ends when its last user releases it. The last
  /// reference must not be released on the loop's own thread. Errors: those of ControlLoop::create.
  Result<std::shared_ptr<control::ControlLoop>> loop();
  /// Returns the Peers for these credentials, on the loop of loop(). All callers with the same credentials
  /// share the Peers, even if they name the same files by different paths. The Peers keep the loop alive.
  /// Errors: those of loop(), control::security_of and Peers::create.
  Result<std::shared_ptr<Peers>> peers(const control::Identity& identity);

 private:
  struct KeptPeers {
    control::Identity identity;
    std::weak_ptr<Peers> peers;
  };
  /// Returns the Peers for these credentials, or null if there are none. The caller must hold the mutex.
  std::shared_ptr<Peers> known_peers(const control::Identity& identity);

  mutable std::mutex mutex_;
  ContextOptions options_;
  std::vector<std::weak_ptr<FabricThread>> threads_;
  std::weak_ptr<control::ControlLoop> loop_;
  std::vector<KeptPeers> peers_;
};

}  // namespace rdmc::peer
