// A store node without its connections and its disk. It consists of an Acceptor, and of the protocol that
// brings the acceptor into a configuration. A store is formed once, when all configured nodes are present and
// none of them has state. A node that has lost its state has a new acceptor. It makes a majority of the
// current configuration agree on a next configuration. In that configuration, the new acceptor has the node's
// number. Then the node collects the state. An answer is sent only when the state that it reports is durable.
// This is a core without I/O: the owner gives it time and randomness, and must drain its outputs. Only one
// thread may use it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controlplane/store/caspaxos/acceptor.hpp"
#include "controlplane/store/caspaxos/proposer.hpp"

namespace rdmc::store {

class Node {
 public:
  struct Options {
    std::size_t self = 0;   ///< The number of this node, from 0.
    std::size_t nodes = 1;  ///< The number of nodes, 1 or 3.
    Id fresh;               ///< The random id of this node's acceptor. Used if the node has no durable state.
    Id proposer;            ///< The random id for the node's own proposals. A new one is drawn in each life.
    std::uint64_t seed = 0;
    /// The time when this life of the process began, in seconds since 1970. Every later life must have a
    /// greater number. If the clock was set back or is far from the true time, two configurations that
    /// operators force may get the same epoch. A wrong clock has no other effect.
    std::uint64_t started = 0;
  };
  /// The number of a client's connection. The owner gives out these numbers, beginning with 1.
  using Client = std::uint64_t;
  struct ToClient {
    Client client;
    Reply reply;
  };
  struct ToPeer {
    std::size_t node;
    Request request;
  };
  struct Counters {
    std::uint64_t requests = 0;
    std::uint64_t accepted = 0;   ///< Proposals that were accepted.
    std::uint64_t refused = 0;    ///< Requests that were refused for any of the reasons in Refused.
    std::uint64_t overtaken = 0;  ///< Requests that were refused because a higher ballot was promised.
  };

  /// The largest number of answers that wait for the disk. When it is reached, further requests are refused.
  static constexpr std::size_t kMostWaiting = 1024;
  /// The pause between two state requests to the other nodes, while this node does not serve. The pause
  /// begins with kAsk. While nothing changes, it is doubled each time, up to kMostAsk.
  static constexpr Duration kAsk = milliseconds(50), kMostAsk = seconds(1);
  /// If a change of the configuration has not ended after this time, another node completes it.
  static constexpr Duration kStalled = milliseconds(200);
  /// After an operator has named this node as the surviving node, this node asks the other nodes whether they
  /// are alive. kAskAlive is the pause between two such requests, and kHeardWithin is the time limit for all
  /// answers.
  static constexpr Duration kAskAlive = milliseconds(200), kHeardWithin = seconds(3);

  /// `kept` is the state that is on the disk. If `kept` has no id, the node is new.
  Node(const Options& options, Durable kept, Time now);

  void receive(Client client, Request request, Time now);
  /// Handles an answer of another node. `node` is the number of that node.
  void hear(std::size_t node, const Reply& reply, Time now);
  /// The owner must call this when another node has become reachable.
  void peer_up(Time now) { ask_at_ = now; }
  void tick(Time now);
  Time next_deadline() const;

  /// The owner must call this when all writes up to `sequence` are on the disk.
  void synced(std::uint64_t sequence, Time now);
  /// The owner must call this when the disk has refused a write, or when memory has run out in the middle of
  /// a step. The state on the disk, or in the node, is then unknown. After this, the node only reports its
  /// stage, and refuses all other requests.
  void fail(Error cause) noexcept;

  std::vector<ToClient> take_replies();
  std::vector<ToPeer> take_requests();
  /// Returns the writes for the journal, in order. The owner must not begin a write before the preceding
  /// write is durable.
  std::vector<Acceptor::Write> take_writes();
  /// Returns the registers that may have changed since the last call.
  std::vector<Hint> take_hints();

  Stage stage() const;
  NodeState state() const;
  /// Returns the reason why the node will never serve again: the cause of its failure, or cancelled if a
  /// configuration without this node was agreed. Returns null if there is no such reason. Allocates no
  /// memory.
  const Error* ending() const noexcept;
  /// True if a majority has lost its state. Then the store can continue only if an operator names a surviving
  /// node.
  bool has_lost_majority() const;
  const Acceptor& acceptor() const { return acceptor_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Peer {
    std::optional<NodeState> state;  ///< The last state that the peer reported.
    Id id;
    bool heard = false;  ///< True if the peer has reported its state since it was last asked.
  };
  struct Waiting {
    Client client;
    Reply reply;
    std::uint64_t after;
  };
  /// The state of a naming: an operator has named this node as the surviving node, and the node is asking the
  /// other nodes whether they are alive.
  struct Naming {
    Client client;        ///< The operator's connection.
    std::uint64_t id;     ///< The id of the operator's request.
    std::uint64_t asked;  ///< The id of the requests to the other nodes.
    Time ask_at, until;
    std::set<std::size_t>
        alive;  ///< This node, and the nodes that have answered and are neither failed nor replaced.
  };

  void serve(Client client, std::uint64_t id, Acceptor::Answer answer);
  void refuse(Client client, std::uint64_t id, Refused reason, std::string text);
  void say(Client client, Reply reply);
  bool is_silent() const { return synced_ < silent_until_; }
  void receive_accept(Client client, std::uint64_t id, Accept accept);
  void ask_peers(const decltype(Request::body)& body, std::uint64_t id);
  void flush(Time now);
  bool is_settled() const;
  const Configuration& known() const;

  // Defined in node_forming.cpp.
  void learn(const Configuration& configuration, Time now);
  void look_around(Time now);
  void look_for_first_configuration(Time now);
  void reconsider_vote(const Id& peer, const NodeState& state, Time now);
  void count_vote(std::size_t node, const Reply& reply, Time now);
  void count_own_vote(Time now);
  void gather(const Reply& reply, Time now);
  void try_activate(Time now);
  void activate(Registers registers, Time now);
  Time complete_at() const;
  void propose_configuration(Time now);
  void run_proposer(Time now);

  // Defined in node_surviving.cpp.
  Id id_at(std::size_t node) const;
  bool has_state_of(std::size_t node, const Configuration& configuration) const;
  bool has_lost_majority_of(const std::vector<Id>& acceptors) const;
  bool is_majority(const std::set<std::size_t>& alive, const std::vector<Id>& acceptors) const;
  bool can_go_on(const std::set<std::size_t>& alive) const;
  void receive_survive(Client client, std::uint64_t id, bool force, Time now);
  void ask_alive(Time now);
  void decide_on_naming(Time now);
  void survive(Client client, std::uint64_t id);

  const Options options_;
  Acceptor acceptor_;
  Ballots ballots_;
  std::vector<Peer> peers_;  ///< Indexed by node number. The entry of this node is not used.
  Configuration known_;      ///< The newest agreed configuration that the node has learned of.
  std::optional<Error> failure_;
  std::uint64_t synced_ = 0;
  /// The number of the write that makes a forced configuration durable. When an operator has forced a
  /// configuration on this node, only this node knows the configuration. The node sends nothing before this
  /// write is durable. Otherwise the configuration could be lost after other processes have learned of it.
  std::uint64_t silent_until_ = 0;

  Time ask_at_, sealed_since_ = Time::never();
  Duration ask_every_ = kAsk;
  bool behind_ = false;  ///< True if a client or another node knows a newer configuration.

  std::optional<Configuration> candidate_;  ///< The first configuration that this node tries to form.
  std::set<std::size_t> votes_;
  std::uint64_t own_vote_after_ = 0;
  std::unique_ptr<Proposer> proposer_;  ///< The proposer of a configuration, if this node is proposing one.
  std::uint64_t proposals_ = 0;
  /// The registers that were received from acceptors of the earlier epoch.
  std::map<Id, Registers> gathered_;
  std::uint64_t gathering_ = 0;  ///< The epoch for which the registers are collected.
  std::optional<Naming> naming_;
  std::uint64_t namings_ = 0;

  std::deque<Waiting> waiting_;
  std::vector<ToClient> replies_;
  std::vector<ToPeer> requests_;
  std::vector<Hint> hints_;
  Counters counters_;
};

}  // namespace rdmc::store
