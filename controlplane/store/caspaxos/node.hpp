// A node of the store without its connections and its disk: an Acceptor, and what brings it into a
// configuration. A store is formed once, when all configured nodes are there and none has state. A node that
// has lost its state is a new acceptor: it has a majority of those that kept theirs agree on a configuration
// with itself in its old place, and gathers the state. Answers leave when what they tell is durable. Pure:
// time and randomness are handed in, everything else is drained. One thread.
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
    std::size_t self = 0;   ///< its number among the nodes
    std::size_t nodes = 1;  ///< 1 or 3
    Id fresh;               ///< its id, if it has no durable state; random
    Id proposer;            ///< for its own proposals; random, drawn anew in each life
    std::uint64_t seed = 0;
    /// When this life began: the seconds since 1970. Only a later life has a greater number. Where the clock
    /// was set back, or lies beyond any use, only the epochs that operators force are less certain to differ.
    std::uint64_t started = 0;
  };
  /// Somebody who asks: a connection, as the owner numbers them from 1.
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
    std::uint64_t accepted = 0;   ///< proposals
    std::uint64_t refused = 0;    ///< requests, for a reason that Refused names …
    std::uint64_t overtaken = 0;  ///< … and those of them that came after a higher ballot
  };

  /// Answers that wait for the disk; a request beyond that is refused.
  static constexpr std::size_t kMostWaiting = 1024;
  /// Between questions to the others while it does not serve: at first, and at most, if nothing changes.
  static constexpr Duration kAsk = milliseconds(50), kMostAsk = seconds(1);
  /// A change of configuration that does not come to its end is completed by another node.
  static constexpr Duration kStalled = milliseconds(200);
  /// An operator has named the node as the survivor: between questions to the others whether that is right,
  /// and for all of their answers.
  static constexpr Duration kAskAlive = milliseconds(200), kHeardWithin = seconds(3);

  /// `kept` is what its disk holds; without an id it is new.
  Node(const Options& options, Durable kept, Time now);

  void receive(Client client, Request request, Time now);
  /// The answer of another node. Its number is that of its address.
  void hear(std::size_t node, const Reply& reply, Time now);
  /// Another node can be reached now.
  void peer_up(Time now) { ask_at_ = now; }
  void tick(Time now);
  Time next_deadline() const;

  /// The disk holds all writes up to this one.
  void synced(std::uint64_t sequence, Time now);
  /// The disk has refused a write, or there was no memory in the middle of a step. What the disk, or the
  /// node, holds is not known any more: the node answers nobody.
  void fail(Error cause) noexcept;

  std::vector<ToClient> take_replies();
  std::vector<ToPeer> take_requests();
  /// In order. The next one may be written when the one before is durable.
  std::vector<Acceptor::Write> take_writes();
  /// Registers that may have changed.
  std::vector<Hint> take_hints();

  Stage stage() const;
  NodeState state() const;
  /// Why the node takes part in nothing any more, however long it runs: it has failed (the cause), or its
  /// place was given to another node (cancelled). Null: it does. Needs no memory.
  const Error* ending() const noexcept;
  /// A majority has lost its state: only an operator can name a survivor.
  bool has_lost_majority() const;
  const Acceptor& acceptor() const { return acceptor_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Peer {
    std::optional<NodeState> state;  ///< the last that it said
    Id id;
    bool heard = false;  ///< since it was asked last
  };
  struct Waiting {
    Client client;
    Reply reply;
    std::uint64_t after;
  };
  /// The operator has named this node, and it asks the others whether they live.
  struct Naming {
    Client client;        ///< the operator's
    std::uint64_t id;     ///< of the operator's request
    std::uint64_t asked;  ///< the id of the questions
    Time ask_at, until;
    std::set<std::size_t> alive;  ///< those that have answered and work, and this node
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

  // node_forming.cpp
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

  // node_surviving.cpp
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
  std::vector<Peer> peers_;  ///< by number; this node's own entry is unused
  Configuration known_;      ///< the newest agreed one that it has heard of
  std::optional<Error> failure_;
  std::uint64_t synced_ = 0;
  /// The write that makes a configuration durable which nobody but this node knows, because an operator has
  /// forced it. Before that write nothing is said: it could be lost, and what was heard of it is not
  /// forgotten.
  std::uint64_t silent_until_ = 0;

  Time ask_at_, sealed_since_ = Time::never();
  Duration ask_every_ = kAsk;
  bool behind_ = false;  ///< somebody knows of a newer configuration

  std::optional<Configuration> candidate_;  ///< for a first configuration, which this node wants to form
  std::set<std::size_t> votes_;
  std::uint64_t own_vote_after_ = 0;
  std::unique_ptr<Proposer> proposer_;  ///< of a configuration
  std::uint64_t proposals_ = 0;
  std::map<Id, Registers> gathered_;  ///< from acceptors of the epoch before
  std::uint64_t gathering_ = 0;       ///< the epoch that is to begin
  std::optional<Naming> naming_;
  std::uint64_t namings_ = 0;

  std::deque<Waiting> waiting_;
  std::vector<ToClient> replies_;
  std::vector<ToPeer> requests_;
  std::vector<Hint> hints_;
  Counters counters_;
};

}  // namespace rdmc::store
