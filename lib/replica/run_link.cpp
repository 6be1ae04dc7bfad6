#include "lib/replica/run_link.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "controlplane/connect/control_loop.hpp"

namespace rdmc::replica {
Result<control::ClusterKey> take_key(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFD);
  if (flags < 0 || ::fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC) < 0)
    return fail(Errc::invalid_argument,
                "rdmc_run has not passed the key of the run to this process, which another program of the "
                "run has started");
  auto key = control::ClusterKey::load(descriptor);
  if (!key) return fail(Errc::invalid_argument, "the descriptor of rdmc_run has no key: " + key.error().what);
  return key;
}

/// The part of the link that the control loop shares with the rank's thread.
class RunLink::State : public std::enable_shared_from_this<State> {
 public:
  State(Assignment the_assignment, Hook on_event)
      : assignment(std::move(the_assignment)), on_event_(std::move(on_event)) {}

  // The following functions run on the control loop.

  void on_answer(Result<control::Channel> channel) {
    if (!channel) return lose(channel.error());
    channel_.emplace(std::move(*channel));
    channel_->start(
        [weak = weak_from_this()](const std::vector<std::byte>& message) {
          if (const auto self = weak.lock()) self->on_message(message);
        },
        [weak = weak_from_this()](const Error& cause) {
          if (const auto self = weak.lock()) self->lose(cause);
        });
    for (const FromProcess& message : std::exchange(waiting_, {})) send(message);
  }

  /// Sends the message, or keeps it until the channel is open.
  void send(const FromProcess& message) {
    if (!channel_) return waiting_.push_back(message);
    if (const auto sent = channel_->send(encode(message)); !sent) lose(sent.error());
  }

  /// Ends the channel. What was sent on it still arrives.
  void close() {
    if (channel_) channel_->close();
    channel_.reset();
  }

  // The following functions may run on any thread.

  /// Waits until `is_done` returns true or the launcher is lost. `is_done` is called with the mutex locked.
  /// Returns false if `deadline` has passed before.
  template <typename Condition>
  bool wait(Duration deadline, Condition is_done) {
    std::unique_lock lock(mutex);
    return changed_.wait_for(lock, std::chrono::nanoseconds(deadline.ns),
                             [&] { return is_done() || lost.has_value(); });
  }

  std::vector<LinkEvent> take_events() {
    if (!has_events.load(std::memory_order_acquire)) return {};
    const std::lock_guard lock(mutex);
    has_events.store(false, std::memory_order_relaxed);
    return std::exchange(events_, {});
  }

  const Assignment assignment;
  std::atomic<bool> has_events = false;
  std::mutex mutex;
  // The mutex protects the following members.
  std::optional<Started> started;
  std::optional<Error> lost;
  bool is_noted = false, is_aborted = false;

 private:
  void on_message(const std::vector<std::byte>& bytes) {
    auto message = decode_to_process(bytes, assignment.layout);
    if (!message) return lose(message.error());
    std::visit([this](auto& one) { handle(one); }, *message);
  }

  void handle(Started& message) {
    {
      const std::lock_guard lock(mutex);
      if (!started && value_of(last_) == 0) {
        last_ = message.number;
        started = std::move(message);
        changed_.notify_all();
        return;
      }
    }
    lose({Errc::protocol_error, "sent a second start"});
  }

  void handle(NumberedEvent& message) {
    // A run may be aborted before it has started. Only then there is no order yet.
    const bool is_abort = std::holds_alternative<Aborted>(message.event);
    bool is_next = false;
    {
      const std::lock_guard lock(mutex);
      is_next = is_abort || (started && message.number == next(last_));
      if (is_next) {
        last_ = message.number;
        is_aborted = is_aborted || is_abort;
        std::visit([&](auto& event) { push({message.number, std::move(event)}); }, message.event);
      }
    }
    if (!is_next) return lose({Errc::protocol_error, "sent an event out of order"});
    if (on_event_) on_event_();
  }

  void handle(const ForkRequest& request) { push_to_this(request); }
  void handle(const ForkNoted& noted) { push_to_this(noted); }

  template <typename What>
  void push_to_this(const What& what) {
    {
      const std::lock_guard lock(mutex);
      push({last_, what});
    }
    if (on_event_) on_event_();
  }

  void handle(const Noted&) {
    const std::lock_guard lock(mutex);
    is_noted = true;
    changed_.notify_all();
  }

  /// Ends the link. The first cause is kept.
  void lose(const Error& cause) {
    {
      const std::lock_guard lock(mutex);
      if (lost) return;
      const Errc code = cause.code == Errc::cancelled ? Errc::peer_failed : cause.code;
      lost = Error{code, "rdmc_run: " + cause.what};
      push({last_, LauncherLost{*lost}});
    }
    channel_.reset();  // `cause` may belong to the channel, so it is not used after this.
    if (on_event_) on_event_();
  }

  void push(LinkEvent event) {
    events_.push_back(std::move(event));
    has_events.store(true, std::memory_order_release);
    changed_.notify_all();
  }

  const Hook on_event_;
  std::condition_variable changed_;
  std::vector<LinkEvent> events_;  // protected by the mutex
  // Only the control loop uses the following members.
  std::optional<control::Channel> channel_;
  std::vector<FromProcess> waiting_;  ///< messages that are sent when the channel is open
  EventNumber last_{};
};

Result<std::unique_ptr<RunLink>> RunLink::open(Assignment assignment, const control::ClusterKey& key,
                                               peer::Context& context, Hook on_event) {
  auto loop = context.loop();
  if (!loop) return std::unexpected(std::move(loop.error()));
  auto security = control::TlsContext::create(key);
  if (!security) return std::unexpected(std::move(security.error()));
  auto peers =
      peer::Peers::create(**loop, {.security = *security, .max_message_bytes = kMostRunMessageBytes});
  if (!peers) return std::unexpected(std::move(peers.error()));
  auto state = std::make_shared<State>(std::move(assignment), std::move(on_event));
  return std::unique_ptr<RunLink>(new RunLink(std::move(*loop), std::move(*peers), std::move(state)));
}

RunLink::RunLink(std::shared_ptr<control::ControlLoop> loop, std::shared_ptr<peer::Peers> peers,
                 std::shared_ptr<State> state)
    : loop_(std::move(loop)), peers_(std::move(peers)), state_(std::move(state)) {}

RunLink::~RunLink() {
  dialing_ = {};
  loop_->call([this] { state_->close(); });
}

const Assignment& RunLink::assignment() const {
  return state_->assignment;
}
peer::Peers& RunLink::peers() {
  return *peers_;
}

Result<Started> RunLink::join(const Address& own, EventNumber recovery, EventNumber last, Duration deadline) {
  const Assignment& assignment = state_->assignment;
  const Join greeting{
      assignment.run, assignment.process(), static_cast<std::uint32_t>(::getpid()), own, recovery, last};
  dialing_ = peers_->open(host_string(assignment.launcher), assignment.launcher.port, deadline, kRunService,
                          {.greeting = encode(greeting)},
                          [weak = std::weak_ptr(state_)](Result<control::Channel> channel, peer::Offer) {
                            if (const auto state = weak.lock()) state->on_answer(std::move(channel));
                          });
  state_->wait(deadline, [this] { return state_->started || state_->is_aborted; });
  const std::lock_guard lock(state_->mutex);
  if (state_->started) return *state_->started;
  if (state_->is_aborted) return fail(Errc::cancelled, "the run was aborted before it began");
  if (state_->lost) return std::unexpected(*state_->lost);
  return fail(Errc::timed_out, "not all processes of the run have joined in time");
}

bool RunLink::has_events() const {
  return state_->has_events.load(std::memory_order_acquire);
}
std::vector<LinkEvent> RunLink::take_events() {
  return state_->take_events();
}

// The loop waits in a task, so that no lock of the libraries that it uses is held.
void RunLink::while_parked(const std::function<bool()>& task) {
  std::atomic<bool> is_parked = false, has_left = false;
  const bool posted = loop_->post([&] {
    is_parked = true;
    is_parked.notify_all();
    is_parked.wait(true);
    has_left = true;
    has_left.notify_all();
  });
  if (posted) is_parked.wait(false);
  if (!task() || !posted) return;
  is_parked = false;
  is_parked.notify_all();
  has_left.wait(false);  // The task of the loop uses the variables of this function.
}

Result<void> RunLink::tell(const FromProcess& message) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->started) return fail(Errc::invalid_argument, "this process has not joined the run");
  }
  loop_->post([state = state_, message] { state->send(message); });
  return {};
}

Result<void> RunLink::done() {
  return tell(Done{});
}

Result<void> RunLink::finish(const RunCounters& counters, Duration deadline) {
  if (auto told = tell(Finished{counters}); !told) return told;
  const bool answered = state_->wait(deadline, [this] { return state_->is_noted; });
  const std::lock_guard lock(state_->mutex);
  if (state_->is_noted) return {};
  if (answered) return std::unexpected(*state_->lost);
  return fail(Errc::timed_out, "rdmc_run does not answer");
}

void RunLink::abort(int code, Duration deadline) {
  code = std::clamp(code, kLeastAbortCode, kMostAbortCode);
  loop_->post([state = state_, code] { state->send(Abort{code}); });
  state_->wait(deadline, [this] { return state_->is_aborted; });
}

}  // namespace rdmc::replica
