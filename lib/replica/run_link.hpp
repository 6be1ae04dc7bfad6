// The link between a process of a run and rdmc_run, at the side of the process. By it the process learns
// where the other processes are, and which of them die or join. All processes get the same events in the same
// order.
//
// Threads: the link's I/O happens on the control loop of the Context. The functions are for one thread, the
// rank's thread, unless a comment says "any thread". take_events() reads one atomic variable if there is
// nothing new, so it can be called often.
#pragma once

#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/peer/context.hpp"
#include "controlplane/peer/peers.hpp"
#include "lib/replica/assignment.hpp"
#include "lib/replica/run_messages.hpp"

namespace rdmc::replica {

/// The connection to rdmc_run has ended, so rdmc_run is dead or has given up this process. No event follows.
struct LauncherLost {
  Error cause;
};

struct LinkEvent {
  /// The number of the event. What rdmc_run tells only this process has the number of the last event before
  /// it, and so has LauncherLost.
  EventNumber number{};
  std::variant<Died, Joined, Aborted, AllDone, Recovering, ForkRequest, ForkNoted, LauncherLost> what;
};

/// Reads the key of the run from the descriptor that rdmc_run has passed to this process, and sets the
/// descriptor's close-on-exec flag, so that programs which this process starts do not get the key. Errors:
/// invalid_argument if the descriptor is not open or has no key. This is so, for example, in a program that a
/// process of a run has started.
Result<control::ClusterKey> take_key(int descriptor);

class RunLink {
 public:
  /// Called on the control loop after each new event. It must not block, and must not call the RunLink.
  using Hook = std::function<void()>;

  /// Makes the link. It does not connect yet. Errors: those of Context::loop, TlsContext::create and
  /// Peers::create.
  static Result<std::unique_ptr<RunLink>> open(Assignment assignment, const control::ClusterKey& key,
                                               peer::Context& context, Hook on_event = {});
  RunLink(const RunLink&) = delete;
  RunLink& operator=(const RunLink&) = delete;
  /// Ends the connection. If finish() has not succeeded, rdmc_run considers this process as failed. Must not
  /// run on the control loop.
  ~RunLink();

  const Assignment& assignment() const;
  /// The Peers with the key of the run. The process must accept the connections of the other processes by
  /// this object, and dial them by it.
  peer::Peers& peers();

  /// Joins the run: sends rdmc_run the address at which this process accepts control connections, and waits
  /// until each process of the run has joined or died. Returns the addresses of all processes. The first
  /// event that take_events() returns is the one after Started::number. Must be called at most once. Errors:
  /// timed_out if this takes longer than `deadline`, cancelled if the run is aborted meanwhile, and
  /// peer_failed, authentication or protocol_error if rdmc_run is gone, or is not the one of this run.
  Result<Started> join(const Address& own, Duration deadline) { return join(own, {}, {}, deadline); }
  /// The same for a process that was forked for the recovery with this number by a process that has learned
  /// of the events up to `last`. The next event of take_events() is the one after `last`.
  Result<Started> join(const Address& own, EventNumber recovery, EventNumber last, Duration deadline);

  /// Any thread. True if take_events() has something to return.
  bool has_events() const;
  /// Returns the events since the last call, in their order. Does not wait.
  std::vector<LinkEvent> take_events();

  /// Informs rdmc_run that the program has ended its part at this process. The process must go on to serve
  /// the others until the event AllDone: if one of them dies, another one may need what this process has.
  /// Errors: invalid_argument if this process has not joined.
  Result<void> done();
  // What a process that is forked tells rdmc_run. Errors: invalid_argument if it has not joined.
  Result<void> fork_ready(ForkNumber request) { return tell(ForkReady{request}); }
  Result<void> fork_refused(ForkNumber request, const std::string& reason, bool is_final) {
    return tell(ForkRefused{request, reason, is_final});
  }
  Result<void> forked(ForkNumber request) { return tell(Forked{request}); }
  /// Informs rdmc_run that the replicas of this rank have not sent a message alike. Errors: invalid_argument
  /// if this process has not joined.
  Result<void> differed(const SendDifference& difference) { return tell(difference); }
  /// Runs `task` while the control loop of this link stands still between two of its tasks. If `task` returns
  /// false, this is a copy of the process, which has no loop: nothing of this object must be used any more.
  void while_parked(const std::function<bool()>& task);

  /// Informs rdmc_run that this process has ended its Job in order, and waits until rdmc_run has noted it.
  /// From then on, the exit code of the process counts. Errors: timed_out, peer_failed if rdmc_run is gone,
  /// invalid_argument if this process has not joined.
  Result<void> finish(const RunCounters& counters, Duration deadline);
  /// Requests that rdmc_run end the whole run with the exit code `code`, which is brought into the range from
  /// kLeastAbortCode to kMostAbortCode. Waits until rdmc_run answers or is gone, but at most `deadline`. The
  /// caller should then exit.
  void abort(int code, Duration deadline);

 private:
  class State;
  Result<void> tell(const FromProcess& message);
  RunLink(std::shared_ptr<control::ControlLoop> loop, std::shared_ptr<peer::Peers> peers,
          std::shared_ptr<State> state);

  std::shared_ptr<control::ControlLoop> loop_;
  std::shared_ptr<peer::Peers> peers_;
  std::shared_ptr<State> state_;
  peer::Peers::Handle dialing_;
};

}  // namespace rdmc::replica
