// A node of the embedded store: the core (caspaxos/node.hpp) with its connections and its disk. Clients and
// the other nodes connect to the same address, prove the same key, and send the same messages. The node runs
// on a control loop that may also be used for other work, for example in a member's process. It has a thread
// for its disk. Any thread may create and destroy the node.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/connect/listener.hpp"
#include "controlplane/store/caspaxos/messages.hpp"

namespace rdmc::store {

struct NodeOptions {
  /// The node's own directory. It is created if it does not exist. If this string is empty, the node keeps
  /// everything in memory, and after a restart it is a new acceptor.
  std::string directory;
  std::size_t self = 0;  ///< The index of this node in `nodes`.
  /// The addresses at which the nodes reach each other: one address or three, the same in every life and for
  /// all nodes. Empty if this node is the only node.
  std::vector<Address> nodes;
  Address listen;  ///< The address at which this node listens.
  /// The options for all connections, including those to other nodes. The node uses its own limit of the
  /// message length.
  control::ListenOptions channel;
  /// Called once, on the loop's thread, when the node will never serve again. The cause is the disk's error,
  /// resource_limit if memory ran out, or cancelled if another node has replaced this node. May be empty.
  std::function<void(const Error& cause)> ended;
};

/// The state of a node. The counters begin at the start of the node.
struct NodeStatus {
  Stage stage{};
  std::string text;  ///< The reason why the node does not serve, for people.
  /// The cause with which NodeOptions::ended is called. Empty while the node has not ended.
  std::optional<Error> ending;
  /// The epoch of the configuration whose state the node has.
  std::uint64_t epoch = 0;
  std::size_t groups = 0;      ///< The number of groups' registers that the node keeps.
  std::uint64_t accepted = 0;  ///< Proposals that were accepted.
  /// Requests that were refused because a higher ballot was promised.
  std::uint64_t overtaken = 0;
  /// The time for which the disk has not completed the current write. Zero if no write is in progress.
  Duration writing_for{};
  std::size_t clients = 0, watches = 0;
  std::uint64_t requests = 0;
  /// The numbers of refused connections, by their reason (ListenHandlers::on_refused).
  std::map<Errc, std::uint64_t> refused;
};

class StoreNode {
 public:
  /// The largest number of connections. One more connection replaces the connection that has sent no request
  /// for the longest time. The client of the replaced connection may connect again.
  static constexpr std::size_t kMostClients = 512;

  /// Starts a node. `loop` must exist longer than the node. Errors: invalid_argument if the number of nodes
  /// or `self` is wrong, or if the directory belongs to another node or another store; those of
  /// JournalFile::open and of Listener::listen.
  static Result<std::unique_ptr<StoreNode>> start(control::ControlLoop& loop, const NodeOptions& wanted);
  /// Waits for the end of the current write to the disk.
  ~StoreNode();

  const Address& address() const;
  /// Returns the state of the node. Must be called on the loop's thread.
  NodeStatus status() const;

 private:
  class Impl;
  explicit StoreNode(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::store
