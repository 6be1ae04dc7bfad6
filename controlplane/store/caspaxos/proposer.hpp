// One change, or one linearizable reading, of one register: the proposer of CASPaxos. It asks all acceptors
// of a configuration at once, and a majority is enough. A reading asks what is accepted, and is answered in
// one round trip if a majority has accepted the same proposal of this configuration; else, and for every
// change, there are two phases: prepare and accept. It says what is to be sent, and is handed the answers and
// the time. Pure; one thread.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "controlplane/store/caspaxos/messages.hpp"
#include "dataplane/base/random.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::store {

/// Where the ballots of one process come from: each is higher than all that it has used or seen.
class Ballots {
 public:
  /// `self` is drawn anew whenever the process starts; `seed` is for pauses only.
  Ballots(Id self, std::uint64_t seed) : self_(self), random_(seed) {}
  Ballot next(std::uint64_t epoch) { return {epoch, ++counter_, self_}; }
  void see(const Ballot& ballot) { counter_ = std::max(counter_, ballot.counter); }
  /// Uniform up to `most`.
  Duration pause(Duration most);

 private:
  Id self_;
  std::uint64_t counter_ = 0;
  Random random_;
};

class Proposer {
 public:
  /// What is to stand, given what stands; nothing: what stands stays. Called once in each attempt.
  using Change = std::function<std::optional<Bytes>(const Accepted& current)>;

  /// After a reading that got different answers, for those that are still on the way.
  static constexpr Duration kAgreeWithin = milliseconds(2);
  /// For the answers of one phase, doubled with each attempt up to kMostPatience.
  static constexpr Duration kPatience = milliseconds(100);
  static constexpr Duration kMostPatience = milliseconds(800);
  /// After a conflict: uniform up to this, doubled with each attempt up to kMostPause.
  static constexpr Duration kPause = milliseconds(4);
  static constexpr Duration kMostPause = milliseconds(64);

  /// `number` names it among the operations of a process: its requests carry that in their upper bits.
  Proposer(std::uint64_t number, std::string name, Change change, Ballots& ballots);

  static constexpr int kRoundBits = 20;
  static std::uint64_t number_of(std::uint64_t request) { return request >> kRoundBits; }

  /// Begins, or begins anew because there is another configuration.
  void begin(const Configuration& configuration, Time now);
  /// What was answered to one of its requests. Anything else is ignored.
  void hear(const Reply& reply, Time now);
  void tick(Time now);
  Time next_deadline() const { return done_ ? Time::never() : deadline_; }

  /// A request that nobody has been sent yet; all acceptors are to get it.
  const Request* take_request();
  /// The request under way, for an acceptor that can be reached only now; nothing if it has answered or there
  /// is none.
  const Request* request_for(const Id& acceptor) const;

  bool is_done() const { return done_; }
  /// What stands, once it is done: no older than anything that stood when it began.
  const Accepted& result() const { return result_; }
  /// What acceptors said that refused the last attempt; for people.
  const std::string& complaint() const { return complaint_; }
  const std::string& name() const { return name_; }

 private:
  enum class Phase : std::uint8_t { waiting, querying, preparing, accepting };

  void begin_attempt(Time now);
  void prepare(Time now);
  void propose(Accepted highest, bool settled, Time now);
  void send(Phase phase, decltype(Request::body) body, Time now);
  void pause(Duration most, Time now);
  void hear_refusal(const Id& from, const Refusal& refusal, Time now);
  void look_at_readings(Time now);
  void look_at_promises(Time now);
  std::size_t heard() const { return answers_.size(); }
  void finish(Accepted result);

  const std::uint64_t number_;
  const std::string name_;
  const Change change_;
  Ballots& ballots_;
  Configuration configuration_;

  Phase phase_ = Phase::waiting;
  int attempt_ = 0;
  bool quick_ = true;  ///< a reading has not tried the short way yet
  Ballot ballot_;      ///< of this attempt
  Accepted proposal_;
  std::uint64_t round_ = 0;
  std::optional<Request> request_;
  bool unsent_ = false;
  std::map<Id, Accepted> answers_;  ///< to the request; empty ones in phase accepting
  std::set<Id> refusals_;
  bool conflict_ = false;  ///< somebody has promised a higher ballot
  Time deadline_ = Time::never();

  bool done_ = false;
  Accepted result_;
  std::string complaint_;
};

}  // namespace rdmc::store
