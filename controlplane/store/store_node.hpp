// A node of the embedded store: the core (caspaxos/node.hpp) with its connections and its disk. Clients and
// the other nodes connect to the same address, prove the same key, and send the same messages. The node runs
// on a control loop that others may use as well, for example in a member's process. It has a thread for its
// disk. Any thread may create and destroy it.
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
  /// The node's own directory, which is created if it does not exist. If this string is empty, the node keeps
  /// everything in memory, and is a new acceptor after a restart.
  std::string directory;
  std::size_t self = 0;  ///< The index of this node in `nodes`.
  /// The addresses at which other nodes reach each node: one or three, always the same, and the same for all
  /// nodes. Empty if this node is the only one.
  std::vector<Address> nodes;
  Address listen;  ///< The address at which this node listens.
  /// For all connections, also those to other nodes. The node replaces the limit of the message length by its
  /// own.
  control::ListenOptions channel;
  /// Called once, on the loop's thread, when the node will never serve again. The cause is the disk's error,
  /// resource_limit if memory ran out, or cancelled if another node has replaced this one. May be empty.
  std::function<void(const Error& cause)> ended;
};

/// The state of a node. Its counters begin at the node's start.
struct NodeStatus {
  Stage stage{};
  std::string text;             ///< The reason why it does not serve, for people.
  std::optional<Error> ending;  ///< The cause that NodeOptions::ended gets.
  /// The epoch of the configuration whose state the node has.
  std::uint64_t epoch = 0;
  std::size_t groups = 0;      ///< The number of registers that it keeps.
  std::uint64_t accepted = 0;  ///< Proposals that were accepted.
  /// Requests that were refused because a higher ballot was promised.
  std::uint64_t overtaken = 0;
  /// For how long the disk has not answered the current write. Zero if nothing is being written.
  Duration writing_for{};
  std::size_t clients = 0, watches = 0;
  std::uint64_t requests = 0;
  /// Refused connections, by their reason (ListenHandlers::on_refused).
  std::map<Errc, std::uint64_t> refused;
};

class StoreNode {
 public:
  /// The greatest number of connections. One more connection replaces the one that has sent no request for
  /// the longest time. The client of the replaced connection may connect again.
  static constexpr std::size_t kMostClients = 512;

  /// `loop` must outlive the node. Errors: invalid_argument if the number of nodes or `self` is wrong, or if
  /// the directory belongs to another node or another store; those of JournalFile::open and of
  /// Listener::listen.
  static Result<std::unique_ptr<StoreNode>> start(control::ControlLoop& loop, const NodeOptions& wanted);
  /// Waits for the current write to the disk.
  ~StoreNode();

  const Address& address() const;
  /// Must be called on the loop's thread.
  NodeStatus status() const;

 private:
  class Impl;
  explicit StoreNode(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::store
