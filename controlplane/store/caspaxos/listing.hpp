// Reads all registers at once. It asks all acceptors which proposals they have accepted. If a majority has
// accepted the same proposal for a register, the value of the register is known. The owner must read each of
// the other registers separately. This is a core without I/O. Only one thread may use it.
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
  /// `number` identifies this operation in the process, in the same way as the number of a Proposer.
  explicit Listing(std::uint64_t number) : number_(number) {}

  void begin(const Configuration& configuration, Time now);
  /// Handles an answer. Returns true if it is the first answer of its acceptor.
  bool hear(const Reply& reply, Time now);
  void tick(Time now);
  Time next_deadline() const { return done_ ? Time::never() : deadline_; }

  const Request* take_request();
  const Request* request_for(const Id& acceptor) const;

  /// True if a majority has answered and the wait for further answers has ended. Then known() contains the
  /// registers on which a majority agrees, and unknown() contains the names of the other registers.
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
  /// The time limit for the answers. If it passes without a majority, it is doubled, because answers may be
  /// long.
  Duration patience_ = Proposer::kPatience;
  bool done_ = false;
  Registers known_;
  std::vector<std::string> unknown_;
};

}  // namespace rdmc::store
