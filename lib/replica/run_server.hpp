// The link between the processes of a run and rdmc_run, at the side of rdmc_run. It accepts only the
// processes of this run, hands their messages to its owner, and sends the owner's events to all of them. It
// has no rules of its own: the owner decides when the run starts and which processes have died.
//
// Threads: the I/O happens on the control loop of the Context, and the handlers are called there. They must
// not block. The functions may be called from any other thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/peer/context.hpp"
#include "lib/replica/run_messages.hpp"

namespace rdmc::replica {

class RunServer {
 public:
  struct Handlers {
    std::function<void(const Join&)> joined;
    std::function<void(ProcessId)> done;
    /// The process has the answer only after this call. So if its exit is seen, this call was before.
    std::function<void(ProcessId, const RunCounters&)> finished;
    std::function<void(ProcessId, int code)> aborted;
    std::function<void(ProcessId, const ForkReady&)> fork_ready;
    std::function<void(ProcessId, const ForkRefused&)> fork_refused;
    std::function<void(ProcessId, const Forked&)> forked;
    std::function<void(ProcessId, const SendDifference&)> differed;
    /// The connection of a process has ended, also if the process has finished before. Not called for a
    /// process that was forgotten.
    std::function<void(ProcessId, const Error& cause)> lost;
  };

  /// Listens at `address`; port 0 chooses a free port. `run` is the name of the run. Errors: those of
  /// Context::loop, TlsContext::create, Peers::serve and Peers::listen.
  static Result<std::unique_ptr<RunServer>> open(Layout layout, std::string run, const Address& address,
                                                 const control::ClusterKey& key, peer::Context& context,
                                                 Handlers handlers);
  RunServer(const RunServer&) = delete;
  RunServer& operator=(const RunServer&) = delete;
  /// Ends all connections. When it returns, no handler runs.
  ~RunServer();

  const Address& address() const;

  /// Informs a process which has joined that the run has started, or that it takes part in a run which has
  /// started before. From then on the process gets the events.
  void start(ProcessId process, Started started);
  /// The process can join again, as the result of the recovery with this number only.
  void expect(ProcessId process, EventNumber recovery);
  /// Sends a message to one process that was started.
  void tell(ProcessId process, ToProcess message);
  /// Sends an event to each process that was started. Aborted goes to each process that has joined.
  void send(NumberedEvent event);
  /// Ends the connection of a process that is dead, so that another process can join in its place.
  void forget(ProcessId process);

 private:
  class State;
  RunServer(std::shared_ptr<control::ControlLoop> loop, std::shared_ptr<peer::Peers> peers,
            std::shared_ptr<State> state);

  // The order matters: the state has channels, which need the peers, which need the loop.
  std::shared_ptr<control::ControlLoop> loop_;
  std::shared_ptr<peer::Peers> peers_;
  std::shared_ptr<State> state_;
  peer::Peers::Handle service_;
  std::optional<control::Listener> listener_;
};

}  // namespace rdmc::replica
