// Reads all registers at once. It asks all acceptors what they have accepted. If a majority has accepted the
// same proposal for a register, its value is known. The owner must read the other registers one by one. A
// state machine without I/O; one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "controlplane/store/caspaxos/proposer.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::store {

class Listing {
 public:
  /// `number` identifies this operation in the process, like the number of a Proposer.
  explicit Listing(std::uint64_t number) : number_(number) {}

  void begin(const Configuration& configuration, Time now);
  /// Returns true if this is the first answer of an acceptor.
  bool hear(const Reply& reply, Time now);
  void tick(Time now);
  Time next_deadline() const { return done_ ? Time::never() : deadline_; }

  const Request* take_request();
  const Request* request_for(const Id& acceptor) const;

  /// True if a majority has answered and the wait for further answers has ended. Then `known` has the
  /// registers on which a majority agrees, and `unknown` has the names of the other ones.
  bool is_done() const { return done_; }
  const Registers& known() const { return known_; }
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  void compare();

  const std::uint64_t number_;
  Configuration configuration_;
  std::uint64_t round_ = 0;
  std::optional<Request> request_;
  bool unsent_ = false;
  std::map<Id, Registers> answers_;
  Time deadline_ = Time::never();
  /// The time limit for the answers. It is doubled when it has passed without a majority, because answers may
  /// be long.
  Duration patience_ = Proposer::kPatience;
  bool done_ = false;
  Registers known_;
  std::vector<std::string> unknown_;
};

}  // namespace rdmc::store
