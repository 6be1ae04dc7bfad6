// What everything in one process shares, so that the process has one of each however much runs in it: its
// fabric threads, its control loop, and its connections to other processes. A program has the Context of its
// process and needs no other; a test makes one for each process that it plays. Any thread may call anything.
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
  /// Fabric threads for each set of FabricThreadOptions that is asked for; at least 1. Whoever asks gets the
  /// one that the fewest others use. Port 0 is served by a thread with any port, and an explicit port by the
  /// one thread that has it.
  std::size_t threads = 1;
};

class Context {
 public:
  explicit Context(const ContextOptions& options = {}) : options_(options) {}
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The Context of this process. A child after fork() has one of its own: none of its parent's threads run
  /// in it.
  static std::shared_ptr<Context> of_process();

  /// A thread that is shared with all who ask for the same options. It ends with the last of them. Errors:
  /// those of FabricThread::open; invalid_argument (own_thread is false: the application's thread drives one
  /// owner).
  Result<std::shared_ptr<FabricThread>> fabric_thread(const FabricThreadOptions& options);

  /// ContextOptions::threads from now on; 0 means 1.
  void set_most_threads(std::size_t most);
  /// The fabric threads that are in use.
  std::size_t threads() const;
  /// Whether one of them is what calls.
  bool is_on_fabric_thread() const;

  /// The control loop of the process, which ends with its last user. Do not release the last reference on the
  /// loop's own thread. Errors: those of ControlLoop::create.
  Result<std::shared_ptr<control::ControlLoop>> loop();
  /// The peers of this identity, on that loop. All who ask with the same identity share them, also where the
  /// same files are named in another way. They keep the loop. Errors: those of loop(), control::security_of
  /// and Peers::create.
  Result<std::shared_ptr<Peers>> peers(const control::Identity& identity);

 private:
  struct KeptPeers {
    control::Identity identity;
    std::weak_ptr<Peers> peers;
  };
  /// With the mutex; null: there are none.
  std::shared_ptr<Peers> known_peers(const control::Identity& identity);

  mutable std::mutex mutex_;
  ContextOptions options_;
  std::vector<std::weak_ptr<FabricThread>> threads_;
  std::weak_ptr<control::ControlLoop> loop_;
  std::vector<KeptPeers> peers_;
};

}  // namespace rdmc::peer
