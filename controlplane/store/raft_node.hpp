// One node of the embedded store: a ViewMap that one node or three keep alike, on disk, by raft (Debian's
// libraft: log, elections, snapshots). Only the node that leads answers; three go on without any one of
// them. It has a thread of its own, on which answers come; everything else may be called from any thread.
// What nodes say to each other is not authenticated by libraft: their addresses must be on loopback or a
// network of the cluster's own (docs/security.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controlplane/store/view_map.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::store {

struct RaftOptions {
  std::string directory;  ///< its own, made if it is not there; what it holds must not be lost
  std::size_t self = 0;   ///< which of `nodes` it is
  /// One or three, IPv4, the same for all and for ever: where nodes hear each other. One alone listens
  /// nowhere.
  std::vector<Address> nodes;
  Duration election = seconds(1);  ///< without word of a leader, before another one is elected; to twice that
};

/// How a node stands. What is counted is since it started, and what it had applied before counts again.
struct RaftStatus {
  bool leads = false;
  bool knows_leader = false;    ///< itself or another: without one the store answers nobody
  std::uint64_t term = 0;       ///< raft's: an election begins another one
  std::uint64_t agreed = 0;     ///< swaps that were applied here, whoever was asked for them …
  std::uint64_t overtaken = 0;  ///< … and those that another one had come before
  std::size_t groups = 0;
};

class RaftNode {
 public:
  /// Called on the node's thread when a group's view has changed, to that of this epoch.
  using Changed = std::move_only_function<void(const std::string& group, Epoch epoch)>;

  /// Errors: invalid_argument (addresses, or a directory that cannot be made), io_error (what raft says of
  /// its files and its port).
  static Result<std::unique_ptr<RaftNode>> start(const RaftOptions& options, Changed changed);
  /// What is asked and not answered is answered with cancelled.
  ~RaftNode();
  RaftNode(const RaftNode&) = delete;
  RaftNode& operator=(const RaftNode&) = delete;

  // As in ViewStore. Errors: peer_failed (this node does not lead; after it a swap may have been done all the
  // same), cancelled.
  void swap(SwapCommand command, view::ViewStore::SwapDone done);
  void read(std::string group, view::ViewStore::ReadDone done);
  void list(view::ViewStore::ListDone done);
  /// Answered by every node, on its thread, as long as that goes round.
  void status(std::move_only_function<void(const RaftStatus&)> done);

 private:
  class Impl;
  explicit RaftNode(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdmc::store
