// The reading of all registers at once: all acceptors are asked what they have accepted, and what a majority
// has accepted alike is known. What is left has to be read one by one. Pure; one thread.
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
  /// As Proposer's.
  explicit Listing(std::uint64_t number) : number_(number) {}

  void begin(const Configuration& configuration, Time now);
  /// True: an acceptor has answered that had not.
  bool hear(const Reply& reply, Time now);
  void tick(Time now);
  Time next_deadline() const { return done_ ? Time::never() : deadline_; }

  const Request* take_request();
  const Request* request_for(const Id& acceptor) const;

  /// A majority was asked. `known` has what it agrees on, `unknown` the names of all others.
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
  Duration patience_ = Proposer::kPatience;  ///< doubled when it is over: answers may be long
  bool done_ = false;
  Registers known_;
  std::vector<std::string> unknown_;
};

}  // namespace rdmc::store
