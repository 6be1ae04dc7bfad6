// The implementation of a Job. It has the parts of a process of a rank program, and the calls of the program
// on them. All functions are for the program's thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rdmc/replica.hpp>

#include "controlplane/peer/context.hpp"
#include "lib/replica/connections.hpp"
#include "lib/replica/driver.hpp"
#include "lib/replica/links.hpp"
#include "lib/replica/messenger.hpp"
#include "lib/replica/perturbation.hpp"
#include "lib/replica/process_fork.hpp"
#include "lib/replica/run_link.hpp"
#include "lib/replica/send_log.hpp"

namespace rdmc::replica {

/// One communicator. It has two contexts: one for the messages of the program, and one for those of
/// collective operations.
struct CommunicatorState {
  CommunicatorState(std::shared_ptr<JobState*> its_job, ContextId first, std::vector<Rank> its_members,
                    int its_rank);
  ~CommunicatorState();
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;

  ContextId collectives() const { return ContextId{static_cast<std::uint32_t>(context) + 1}; }
  int size() const { return static_cast<int>(members.size()); }

  const std::shared_ptr<JobState*> job;  ///< points to null when the Job has ended
  const ContextId context;
  const std::vector<Rank> members;  ///< the world's rank of each rank
  const int rank;
};

inline MessageInfo info_of(const Delivery& delivery) {
  return {.source = static_cast<int>(delivery.source), .tag = delivery.tag, .bytes = delivery.bytes};
}
inline Result<MessageInfo> info_of(const Result<Delivery>& delivery) {
  if (!delivery) return std::unexpected(delivery.error());
  return info_of(*delivery);
}

class JobState : private engine::Poller {
 public:
  /// Errors: those of Job::start.
  static Result<std::unique_ptr<JobState>> start();
  ~JobState() override;
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  Communicator& world() { return *world_; }
  Communicator& self() { return *self_; }
  int replica() const { return static_cast<int>(assignment_.self.replica); }

  /// Begins to send or to receive. The arguments have been checked. Errors: that of the Job, if it has ended.
  Result<RequestId> send(ContextId context, std::span<const std::byte> bytes, int to, int tag);
  Result<RequestId> receive(ContextId context, std::span<std::byte> bytes, int from, int tag);
  /// A request that is complete, and its result.
  struct Completion {
    std::size_t index = 0;
    Result<Delivery> result;
  };
  /// Waits until one of the requests is complete, and forgets this request. At least one is necessary.
  /// Errors: that of the Job; invalid_argument if this process is the only one and can only wait forever.
  Result<Completion> wait_any(std::span<const RequestId> requests);
  /// Like wait_any(), but takes only one turn. Returns nullopt if none is complete after that.
  Result<std::optional<Completion>> test_any(std::span<const RequestId> requests);
  /// Waits until the request is complete. If the Job ends before, cancels the request.
  Result<Delivery> wait(RequestId request);
  /// Does the same as send() or receive() and wait().
  Result<Delivery> send_and_wait(ContextId context, std::span<const std::byte> bytes, int to, int tag);
  Result<Delivery> receive_and_wait(ContextId context, std::span<std::byte> bytes, int from, int tag);
  /// Gives up a request. The connection to the process that takes part in it ends, if that is necessary.
  void cancel(RequestId request);
  /// Takes a turn, and returns the message that a receive with these arguments would get.
  Result<std::optional<Delivery>> probe(ContextId context, int from, int tag, bool waits);
  void progress();

  /// The number of the first context of the next communicator, as far as this process knows. A communicator
  /// has the largest of the numbers of its members.
  std::uint64_t next_context() const { return next_context_; }
  /// Makes a communicator of these processes. `first` must not be below next_context().
  Communicator make_communicator(std::uint64_t first, std::vector<Rank> members, int rank);
  /// Makes a communicator of these ranks of `parent`. Returns nullopt if this process is not among them.
  std::optional<Communicator> make_communicator_of(std::uint64_t first, const CommunicatorState& parent,
                                                   std::span<const int> ranks);
  void forget(const CommunicatorState& communicator);

  Result<void> finish();
  void abort(int code);
  JobCounters counters() const;

  static Result<Request> request_of(const Result<RequestId>& id) {
    if (!id) return std::unexpected(id.error());
    return Request(static_cast<std::uint64_t>(*id));
  }
  static RequestId id_of(const Request& request) { return RequestId{request.number_}; }

 private:
  /// The engine and what stands on it. A process that rdmc_run has not started has none, because it only
  /// sends to itself.
  struct Network {
    std::shared_ptr<peer::Context> context;
    std::unique_ptr<Driver> driver;
    std::unique_ptr<RunLink> run;
    std::unique_ptr<Links> links;
    std::shared_ptr<Connections> connections;
  };
  /// A Carrier that nobody calls.
  class NoCarrier;
  /// One call of the program. While it exists, this thread runs the engine, and may use what belongs to the
  /// engine.
  class Call : public Driver::Call {
   public:
    explicit Call(const JobState& job) : Driver::Call(is_forked ? nullptr : job.network_.driver.get()) {}
  };
  /// True in a process that the program has forked. It has a copy of the Job's memory, but none of its
  /// threads, and it shares the Job's connections with its parent. So it must not use them.
  static bool is_forked;

  JobState();
  /// The longest time that a call waits in the engine before it looks for events of the run.
  static constexpr Duration kLook = milliseconds(100);
  // The poller handles what the run tells this process. So that happens even while the program computes.
  std::size_t work(Time now) override;
  void on_out_of_memory() override;
  Result<void> join(const Assignment& assignment);
  Result<void> open_run();
  Result<Started> join_run();
  void make_first_communicators();
  void handle_events();
  void note_death(ProcessId process, const std::string& cause);
  void handle_broken_links(Time now);
  void tell_differences();
  Result<void> prepare_check();
  // These functions are called inside of a call.
  Result<Completion> wait_any(Call& call, std::span<const RequestId> requests);
  Result<Delivery> wait(Call& call, RequestId request);
  void cancel(Call& call, RequestId request);
  std::optional<Completion> find_complete(std::span<const RequestId> requests, bool is_choice);
  Result<void> check() const;
  // These functions are in job_recovery.cpp.
  void note(const Recovering& recovering, EventNumber number);
  void note(const Joined& joined);
  /// Takes one turn. If this process is to be forked, forks it, or waits for a short time until that is
  /// possible.
  void turn(Call& call, Duration longest);
  void serve_fork(Call& call);
  void fork_now(Call& call);
  void refuse_fork(ForkNumber request, const std::string& reason, bool is_final);
  Result<void> become_replica(const PassedDescriptors& passed, ProcessId process, EventNumber recovery);

  Assignment assignment_;
  Network network_;
  std::unique_ptr<Carrier> no_carrier_;
  std::optional<Messenger> messenger_;
  std::optional<SendLog> send_log_;             ///< for --check-determinism
  std::unique_ptr<Perturbation> perturbation_;  ///< for --check-determinism; may be null
  std::shared_ptr<JobState*> self_pointer_;
  std::uint64_t next_context_ = 0;
  std::optional<Communicator> world_, self_;
  std::optional<Error> end_;      ///< why nothing can be done any more
  int told_differences_ = 0;      ///< the number of differences of which rdmc_run was told
  std::string first_difference_;  ///< the text that describes it
  bool are_all_done_ = false;     ///< no process needs another one any more
  StandardStreams streams_ = StandardStreams::now();
  EventNumber recovery_{};  ///< of which this process is the result, or 0
  EventNumber last_event_{};
  bool has_started_ = false;
  bool is_done_ = false;  ///< finish() has been called
  /// rdmc_run wants this process to be forked.
  struct Fork {
    ForkNumber request{};
    ProcessId process{};
    bool is_ready = false;                  ///< rdmc_run knows that the program is inside of a call
    std::optional<EventNumber> recovery{};  ///< set when all processes learn of the recovery
  };
  std::optional<Fork> fork_;
  std::optional<ForkNumber> noted_fork_;  ///< the last fork that rdmc_run has noted
};

}  // namespace rdmc::replica
