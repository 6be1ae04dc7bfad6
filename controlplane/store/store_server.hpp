// Lets clients with the cluster key use a node of the embedded store: one channel each, requests answered in
// any order. Owns its listener; the node must outlive it. Any thread may make and destroy it.
#pragma once

#include <memory>

#include "controlplane/connect/listener.hpp"
#include "controlplane/store/raft_node.hpp"

namespace rdmc::store {

class StoreServer {
 public:
  /// Errors: those of Listener::listen.
  static Result<std::unique_ptr<StoreServer>> listen(control::ControlLoop& loop, const Address& address,
                                                     const control::ListenOptions& options, RaftNode& node);
  ~StoreServer();

  const Address& address() const;
  /// That group's view has changed: whoever watches it is told, when whom it concerns has heard it from who
  /// brought it about, as a rule. Any thread.
  void changed(const std::string& group, Epoch epoch);

 private:
  class Impl;
  explicit StoreServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::store
