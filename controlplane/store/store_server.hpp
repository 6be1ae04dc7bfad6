// Lets clients with the cluster key use a node of the embedded store: one channel each, requests answered in
// any order. Owns its listener; the node must outlive it. Any thread may make and destroy it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "controlplane/connect/listener.hpp"
#include "controlplane/store/raft_node.hpp"

namespace rdmc::store {

/// Who uses a node now, and what has come to its listener since it began.
struct StoreTraffic {
  std::size_t clients = 0, watches = 0;
  std::uint64_t requests = 0;
  std::map<Errc, std::uint64_t> refused;  ///< connections, by the reason (ListenHandlers::on_refused)
};

class StoreServer {
 public:
  /// At a time; one too many takes the place of who has asked nothing for the longest time, which may come
  /// again.
  static constexpr std::size_t kMostClients = 512;

  /// Errors: those of Listener::listen.
  static Result<std::unique_ptr<StoreServer>> listen(control::ControlLoop& loop, const Address& address,
                                                     const control::ListenOptions& options, RaftNode& node);
  ~StoreServer();

  const Address& address() const;
  /// That group's view has changed: whoever watches it is told, when whom it concerns has heard it from who
  /// brought it about, as a rule. Any thread.
  void changed(const std::string& group, Epoch epoch);
  /// On the loop's thread.
  StoreTraffic traffic() const;

 private:
  class Impl;
  explicit StoreServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::store
