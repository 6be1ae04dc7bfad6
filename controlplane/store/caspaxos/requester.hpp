// A client of the store without its connections. It learns the configuration from the nodes, runs a Proposer
// for each request, and matches answers to requests. The owner keeps one link to each node, and must report
// every change of a link. This is a core without I/O. Only one thread may use it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "controlplane/store/caspaxos/listing.hpp"
#include "controlplane/store/caspaxos/proposer.hpp"

namespace rdmc::store {

class Requester {
 public:
  struct Options {
    std::size_t nodes = 1;  ///< The number of links. They are numbered from 0.
    Duration answer_within =
        /// The time limit for a request. For a list, the time limit for each of its answers.
        milliseconds(900);
    Id self;  ///< A random id. Each Requester needs a new one.
    std::uint64_t seed = 0;
  };
  /// The value of one register, or the values of all registers.
  using Outcome = std::variant<Accepted, Registers>;
  struct Finished {
    std::uint64_t number;
    /// Errors: timed_out if no majority has answered in time; peer_failed if the store does not serve, or if
    /// another store answers at its addresses; or the error of a failed link. Even after an error, the change
    /// may have been made.
    Result<Outcome> outcome;
  };
  struct ToNode {
    std::size_t node;
    Request request;
  };

  /// The largest number of registers that a list reads at the same time.
  static constexpr std::size_t kMostReadings = 64;

  explicit Requester(const Options& options);

  // Each of these functions begins an operation and returns its number. `Finished::number` has the same
  // value.
  std::uint64_t read(const std::string& name, Time now) { return change(name, nullptr, now); }
  std::uint64_t change(const std::string& name, Proposer::Change change, Time now);
  std::uint64_t list(Time now);

  void link_up(std::size_t node, Time now);
  /// The owner must call this when an established link has ended. It is not known yet whether the node can be
  /// reached again.
  void link_lost(std::size_t node);
  /// The owner must call this when a link could not be established. A pending operation ends if so many links
  /// have failed since its beginning that the remaining nodes are no majority.
  void link_failed(std::size_t node, const Error& cause, Time now);
  void hear(std::size_t node, const Reply& reply, Time now);
  void tick(Time now);
  Time next_deadline() const;

  /// Returns the requests in the order in which they must be sent. Each request is returned once. If the link
  /// of a request does not exist, the request is lost.
  std::vector<ToNode> take_requests();
  std::vector<Finished> take_finished();
  bool is_idle() const { return operations_.empty(); }
  const Configuration& configuration() const { return configuration_; }

 private:
  struct Link {
    bool up = false;
    Id acceptor;            ///< The id that the node has reported.
    Configuration known;    ///< The last configuration that the node has reported.
    std::string complaint;  ///< The reason that the node has reported for not serving.
  };
  struct Operation {
    std::unique_ptr<Proposer> proposer;  ///< Either `proposer` or `listing` is set.
    std::unique_ptr<Listing> listing;
    Time deadline;
    std::set<std::size_t> failed;  ///< The links that could not be established since the operation began.
    std::optional<std::uint64_t>
        list;             ///< If this operation reads one register for a list, the number of the list.
    Registers registers;  ///< For a list: the registers whose values are known.
    std::vector<std::string> rest;  ///< For a list: the registers that must still be read.
    std::size_t readings = 0;       ///< For a list: the number of registers that are being read now.
  };

  Operation& add(Time now);
  void learn(const Configuration& known, Time now);
  void ask_state(std::size_t node);
  bool is_to_be_asked_again(const Link& link) const;
  void ask_again_soon(Time now);
  void pump(Time now);
  void read_rest(std::uint64_t number, Operation& operation, Time now);
  bool is_of_another_store(const Link& link) const;
  void end(std::uint64_t number, Result<Outcome> outcome);
  void succeed(std::uint64_t number, Operation& operation, Time now);
  std::size_t majority() const { return options_.nodes / 2 + 1; }
  Error lateness() const;

  const Options options_;
  Ballots ballots_;
  Configuration configuration_;
  std::vector<Link> links_;
  std::uint64_t last_operation_ = 0;
  std::map<std::uint64_t, Operation> operations_;
  /// The time when the nodes that do not serve are asked for their state again.
  Time ask_again_ = Time::never();
  std::vector<ToNode> requests_;
  std::vector<Finished> finished_;
};

}  // namespace rdmc::store
