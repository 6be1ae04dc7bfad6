// A node of the embedded store: the core (caspaxos/node.hpp) with its connections and its disk. Clients and
// the other nodes come to one address, and prove the same key. Nodes and clients say the same messages. It
// runs on a control loop that others may use as well, such as that of a member's process, and has a thread
// for its disk. Any thread may make and destroy it.
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
  /// Its own, made if it is not there. Empty: the node keeps everything in memory, and comes back as a new
  /// acceptor after a restart.
  std::string directory;
  std::size_t self = 0;  ///< which of `nodes` it is
  /// Where the other nodes find each: one address or three, the same for all nodes and for ever. Empty: the
  /// node is alone.
  std::vector<Address> nodes;
  Address listen;  ///< where it listens itself
  /// For all connections, those to other nodes as well. The longest message is the store's own.
  control::ListenOptions channel;
  /// Called once, on the loop's thread, when the node takes part in nothing any more: it has failed (the
  /// cause: its disk, or resource_limit), or its place was given to another node (cancelled). May be empty.
  std::function<void(const Error& cause)> ended;
};

/// How a node stands. What is counted is since it started.
struct NodeStatus {
  Stage stage{};
  std::string text;             ///< why it does not serve; for people
  std::optional<Error> ending;  ///< as NodeOptions::ended says
  std::uint64_t epoch = 0;      ///< of the configuration that it has state of
  std::size_t groups = 0;       ///< registers that it keeps
  std::uint64_t accepted = 0;   ///< proposals
  std::uint64_t overtaken = 0;  ///< proposals that a higher ballot came before
  Duration writing_for{};       ///< since when its disk has not answered; zero: nothing is being written
  std::size_t clients = 0, watches = 0;
  std::uint64_t requests = 0;
  std::map<Errc, std::uint64_t> refused;  ///< connections, by the reason (ListenHandlers::on_refused)
};

class StoreNode {
 public:
  /// Connections at a time; one more takes the place of the one that has asked nothing for the longest time,
  /// whose owner may come again.
  static constexpr std::size_t kMostClients = 512;

  /// `loop` outlives the node. Errors: invalid_argument (neither one node nor three, or the directory of
  /// another one), those of JournalFile::open and of Listener::listen.
  static Result<std::unique_ptr<StoreNode>> start(control::ControlLoop& loop, const NodeOptions& wanted);
  /// Waits for the write that its disk is busy with.
  ~StoreNode();

  const Address& address() const;
  /// On the loop's thread.
  NodeStatus status() const;

 private:
  class Impl;
  explicit StoreNode(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::store
