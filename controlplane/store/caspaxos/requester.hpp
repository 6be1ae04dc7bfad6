// A client of the store without its connections: it learns the configuration from the nodes, runs a Proposer
// for each request, and matches answers to requests. The owner keeps one link to each node, and tells of
// what becomes of them. Pure; one thread.
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
    std::size_t nodes = 1;                       ///< links, numbered from 0
    Duration answer_within = milliseconds(900);  ///< a request; a list: each of its answers
    Id self;                                     ///< drawn anew for each Requester
    std::uint64_t seed = 0;
  };
  /// The register's value, or those of all registers.
  using Outcome = std::variant<Accepted, Registers>;
  struct Finished {
    std::uint64_t number;
    /// Errors: timed_out or peer_failed (no majority has answered, or another store answers at its
    /// addresses), or what a link's failure was. The change may have been made all the same.
    Result<Outcome> outcome;
  };
  struct ToNode {
    std::size_t node;
    Request request;
  };

  /// Registers that a list reads at a time.
  static constexpr std::size_t kMostReadings = 64;

  explicit Requester(const Options& options);

  // Each gives the number under which it will be finished.
  std::uint64_t read(const std::string& name, Time now) { return change(name, nullptr, now); }
  std::uint64_t change(const std::string& name, Proposer::Change change, Time now);
  std::uint64_t list(Time now);

  void link_up(std::size_t node, Time now);
  /// It was up; whether it can be had again will be seen.
  void link_lost(std::size_t node);
  /// It could not be had. Requests end when so many fail that no majority is left.
  void link_failed(std::size_t node, const Error& cause, Time now);
  void hear(std::size_t node, const Reply& reply, Time now);
  void tick(Time now);
  Time next_deadline() const;

  /// In the order in which they are to be sent, each once. For a link that is down they are lost.
  std::vector<ToNode> take_requests();
  std::vector<Finished> take_finished();
  bool is_idle() const { return operations_.empty(); }
  const Configuration& configuration() const { return configuration_; }

 private:
  struct Link {
    bool up = false;
    Id acceptor;            ///< as the node has said
    Configuration known;    ///< the last that it has said
    std::string complaint;  ///< why it does not serve, as it has said
  };
  struct Operation {
    std::unique_ptr<Proposer> proposer;  ///< one of the two
    std::unique_ptr<Listing> listing;
    Time deadline;
    std::set<std::size_t> failed;       ///< links that could not be had since it began
    std::optional<std::uint64_t> list;  ///< it reads one register for that operation
    Registers registers;                ///< of a list: what is known
    std::vector<std::string> rest;      ///< of a list: registers that are to be read one by one …
    std::size_t readings = 0;           ///< … and how many of them are being read
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
  Time ask_again_ = Time::never();  ///< nodes that do not serve for their state
  std::vector<ToNode> requests_;
  std::vector<Finished> finished_;
};

}  // namespace rdmc::store
