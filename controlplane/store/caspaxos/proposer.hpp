// The proposer of CASPaxos. It makes one change, or one linearizable reading, of one register. It sends
// requests to all acceptors of a configuration at once, and needs the answers of a majority. A reading first
// asks for the accepted proposals. If a majority has accepted the same proposal of this configuration, the
// reading ends after one round trip. Otherwise, and for every change, there are two phases: prepare and
// accept. This is a core without I/O: the owner sends the requests, and gives the core the answers and the
// time. Only one thread may use it.
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

/// Makes the ballots of one process. Each ballot is higher than all ballots that the process has used or
/// seen.
class Ballots {
 public:
  /// `self` must be a new random id each time that the process starts. `seed` is used only for the pauses.
  Ballots(Id self, std::uint64_t seed) : self_(self), random_(seed) {}
  Ballot next(std::uint64_t epoch) { return {epoch, ++counter_, self_}; }
  void see(const Ballot& ballot) { counter_ = std::max(counter_, ballot.counter); }
  /// Returns a random pause, uniform between zero and `most`.
  Duration pause(Duration most);

 private:
  Id self_;
  std::uint64_t counter_ = 0;
  Random random_;
};

class Proposer {
 public:
  /// Returns the new value of the register for its current value `current`. Returns nullopt to keep the
  /// current value. Called once in each attempt.
  using Change = std::function<std::optional<Bytes>(const Accepted& current)>;

  /// If a majority has given different answers, a reading waits for this time for further answers.
  static constexpr Duration kAgreeWithin = milliseconds(2);
  /// The time limit for the answers of one phase. It is doubled for each further attempt, up to
  /// kMostPatience.
  static constexpr Duration kPatience = milliseconds(100);
  static constexpr Duration kMostPatience = milliseconds(800);
  /// The longest random pause after a conflict. It is doubled for each further attempt, up to kMostPause.
  static constexpr Duration kPause = milliseconds(4);
  static constexpr Duration kMostPause = milliseconds(64);

  /// `number` identifies this proposer among the operations of a process. It is in the upper bits of the ids
  /// of the proposer's requests.
  Proposer(std::uint64_t number, std::string name, Change change, Ballots& ballots);

  static constexpr int kRoundBits = 20;
  static std::uint64_t number_of(std::uint64_t request) { return request >> kRoundBits; }

  /// Begins the operation. If it has begun and the configuration has changed, begins it again.
  void begin(const Configuration& configuration, Time now);
  /// Handles an answer. Answers to requests of other operations are ignored.
  void hear(const Reply& reply, Time now);
  void tick(Time now);
  Time next_deadline() const { return done_ ? Time::never() : deadline_; }

  /// Returns the request that has not been sent yet, or null if there is none. The owner must send it to all
  /// acceptors.
  const Request* take_request();
  /// Returns the current request, so that it can be sent to an acceptor that has only now become reachable.
  /// Returns null if there is no current request, or if the acceptor has already answered it.
  const Request* request_for(const Id& acceptor) const;

  bool is_done() const { return done_; }
  /// Returns the value of the register. Precondition: is_done(). The value is at least as new as every value
  /// that the register had when the operation began.
  const Accepted& result() const { return result_; }
  /// Returns the text of the last refusal in the current attempt, for people.
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
  bool quick_ = true;  ///< True if a reading has not yet tried to end after one round trip.
  Ballot ballot_;      ///< The ballot of this attempt.
  Accepted proposal_;
  std::uint64_t round_ = 0;
  std::optional<Request> request_;
  bool unsent_ = false;
  std::map<Id, Accepted>
      answers_;  ///< The answers to the current request. In the phase `accepting`, their values are empty.
  std::set<Id> refusals_;
  bool conflict_ = false;  ///< True if an acceptor has promised a higher ballot.
  Time deadline_ = Time::never();

  bool done_ = false;
  Accepted result_;
  std::string complaint_;
};

}  // namespace rdmc::store
