#include "lib/replica/job_state.hpp"

#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <charconv>
#include <thread>
#include <utility>

#include "controlplane/launch/key_file.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::replica {
namespace {

/// The longest time for which a process waits for the start of the run.
constexpr Duration kJoinPatience = seconds(60);

Result<Messenger::Options> messenger_options(const Assignment& assignment) {
  Messenger::Options options{.is_strict = assignment.option(option::kStrict) == "1",
                             .verification = {.is_on = assignment.option(option::kVerify) == "hash"}};
  if (const auto list = assignment.option(option::kVerifyExcept); !list.empty())
    if (auto added = add_exceptions(options.verification, list); !added)
      return std::unexpected(added.error());
  return options;
}

std::atomic<bool> has_job = false;

}  // namespace

bool JobState::is_forked = false;

CommunicatorState::CommunicatorState(std::shared_ptr<JobState*> its_job, ContextId first,
                                     std::vector<Rank> its_members, int its_rank)
    : job(std::move(its_job)), context(first), members(std::move(its_members)), rank(its_rank) {}

CommunicatorState::~CommunicatorState() {
  if (*job) (*job)->forget(*this);
}

class JobState::NoCarrier final : public Carrier {
  std::span<std::byte> room(ProcessId, std::size_t) override { return {}; }
  void fill(ProcessId, std::size_t) override {}
  bool can_write(ProcessId) override { return false; }
  void write(ProcessId, const Write&) override {}
  Result<Exposed> expose(ProcessId, std::span<std::byte>, std::size_t) override {
    return fail(Errc::peer_failed, "there is no other process");
  }
  void withdraw(std::uint64_t) override {}
};

JobState::JobState() : self_pointer_(std::make_shared<JobState*>(this)) {}

Result<std::unique_ptr<JobState>> JobState::start() {
  auto assignment = assignment_of(control::environment());
  if (!assignment) return std::unexpected(assignment.error());
  if (has_job.exchange(true)) return fail(Errc::already_exists, "this process has, or had, a Job");
  if (::pthread_atfork(nullptr, nullptr, [] { is_forked = true; }) != 0)
    return fail(Errc::resource_limit, "pthread_atfork");
  std::unique_ptr<JobState> self(new JobState);
  if (*assignment) {
    if (auto joined = self->join(**assignment); !joined) return std::unexpected(joined.error());
  } else {
    self->no_carrier_ = std::make_unique<NoCarrier>();
    auto alone = make_protocol("sdr", Layout(), ReplicaId());
    if (!alone) return std::unexpected(alone.error());
    self->messenger_.emplace(*self->no_carrier_, std::move(*alone));
  }
  self->make_first_communicators();
  return self;
}

Result<void> JobState::join(const Assignment& assignment) {
  auto protocol = make_protocol(assignment.protocol, assignment.layout, assignment.self);
  if (!protocol) return std::unexpected(protocol.error());
  auto settings = messenger_options(assignment);
  if (!settings) return std::unexpected(settings.error());
  assignment_ = assignment;
  if (auto prepared = prepare_check(); !prepared) return prepared;
  const ProcessId own = assignment.process();
  const std::uint32_t processes = assignment.layout.processes();
  Address local = assignment.launcher;
  local.port = 0;
  peer::FabricThreadOptions options{.address = local};
  // If each process has a core, waiting for the next message there is faster than to give the core away.
  options.idle.offers_core = processes > std::thread::hardware_concurrency();
  if (const auto fabric = assignment.option(option::kFabric); !fabric.empty()) options.fabric = fabric;
  auto driver = Driver::open(options);
  if (!driver) return std::unexpected(driver.error());
  network_.driver = std::move(*driver);
  if (auto opened = open_run(); !opened) return opened;
  {
    const Driver::Call call(network_.driver.get());
    network_.links = std::make_unique<Links>(
        network_.driver->thread(), own, processes,
        [this](ProcessId to, Links::Incarnation incarnation, fabric::ConnectionBlob blob) {
          network_.connections->dial(to, incarnation, std::move(blob));
        });
    messenger_.emplace(*network_.links, std::move(*protocol), std::move(*settings));
    network_.links->serve(*messenger_, perturbation_.get());
    network_.driver->thread().engine().add(*this);
  }
  auto started = join_run();
  if (!started) return std::unexpected(started.error());
  last_event_ = started->number;
  {
    const Driver::Call call(network_.driver.get());
    for (std::uint32_t i = 0; i < processes; ++i)
      if (!started->addresses[i]) note_death(ProcessId{i}, "it has not joined the run");
    has_started_ = true;
  }
  network_.connections->set_addresses(std::move(started->addresses));
  return {};
}

// rdmc_run --check-determinism has started this process.
Result<void> JobState::prepare_check() {
  if (const auto folder = assignment_.option(option::kLogSends); !folder.empty()) {
    auto log = SendLog::create(std::string(folder), assignment_.self.rank);
    if (!log) return std::unexpected(log.error());
    send_log_ = std::move(*log);
  }
  if (const auto seed = assignment_.option(option::kPerturb); !seed.empty()) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), number);
    if (error != std::errc() || end != seed.data() + seed.size() || assignment_.layout.most_degree() > 1)
      return fail(Errc::invalid_argument, "the setting 'perturb' is damaged, or ranks have replicas");
    // Each process gets an order of its own.
    number = number * Layout::kMostProcesses + value_of(assignment_.process());
    perturbation_ = std::make_unique<Perturbation>(number, assignment_.layout.processes());
  }
  return {};
}

Result<void> JobState::open_run() {
  auto key = take_key(assignment_.key_descriptor);
  if (!key) return std::unexpected(key.error());
  if (assignment_.fork_descriptor >= 0) ::fcntl(assignment_.fork_descriptor, F_SETFD, FD_CLOEXEC);
  network_.context = peer::Context::of_process();
  auto run = RunLink::open(assignment_, *key, *network_.context,
                           [driver = network_.driver.get()] { driver->thread().wake(); });
  if (!run) return std::unexpected(run.error());
  network_.run = std::move(*run);
  return {};
}

Result<Started> JobState::join_run() {
  network_.connections = std::make_shared<Connections>(
      *network_.driver, *network_.links, network_.run->peers(),
      Connections::Identity{assignment_.process(), value_of(recovery_)}, assignment_.layout.processes());
  Address local = assignment_.launcher;
  local.port = 0;
  const auto address = network_.connections->listen(local);
  if (!address) return std::unexpected(address.error());
  return network_.run->join(*address, recovery_, last_event_, kJoinPatience);
}

void JobState::make_first_communicators() {
  std::vector<Rank> all;
  for (std::uint32_t rank = 0; rank < assignment_.layout.ranks(); ++rank) all.push_back(Rank{rank});
  const int rank = static_cast<int>(value_of(assignment_.self.rank));
  world_ = make_communicator(next_context_, std::move(all), rank);
  self_ = make_communicator(next_context_, {assignment_.self.rank}, 0);
}

JobState::~JobState() {
  *self_pointer_ = nullptr;  // Communicators that exist longer do nothing any more.
  if (is_forked) {
    static const Network* const kept = new Network(std::move(network_));
    static_cast<void>(kept);
    return;
  }
  if (network_.connections) network_.connections->close();
  if (network_.links) {
    const Call call(*this);
    network_.driver->thread().engine().remove(*this);
    network_.links.reset();
  }
}

Communicator JobState::make_communicator(std::uint64_t first, std::vector<Rank> members, int rank) {
  assert(first >= next_context_);
  const Call call(*this);
  const ContextId context{static_cast<std::uint32_t>(first)};
  auto state = std::make_shared<CommunicatorState>(self_pointer_, context, std::move(members), rank);
  messenger_->add_context(state->context, state->members, static_cast<std::uint32_t>(rank));
  messenger_->add_context(state->collectives(), state->members, static_cast<std::uint32_t>(rank));
  next_context_ = first + 2;
  return Communicator(std::move(state));
}

std::optional<Communicator> JobState::make_communicator_of(std::uint64_t first,
                                                           const CommunicatorState& parent,
                                                           std::span<const int> ranks) {
  const auto own = std::ranges::find(ranks, parent.rank);
  if (own == ranks.end()) return std::nullopt;
  std::vector<Rank> members;
  for (const int rank : ranks) members.push_back(parent.members[static_cast<std::size_t>(rank)]);
  return make_communicator(first, std::move(members), static_cast<int>(own - ranks.begin()));
}

void JobState::forget(const CommunicatorState& communicator) {
  if (is_forked) return;
  const Call call(*this);
  messenger_->remove_context(communicator.context);
  messenger_->remove_context(communicator.collectives());
}

Result<void> JobState::check() const {
  if (is_forked)
    return fail(Errc::invalid_argument,
                "this process was forked by a process of the run, whose Job it cannot use");
  if (end_) return std::unexpected(*end_);
  return {};
}

void JobState::note_death(ProcessId process, const std::string& cause) {
  const std::string name = to_string(assignment_.layout.replica(process));
  network_.links->on_died(process, {Errc::peer_failed, "rank " + name + " has died: " + cause});
}

void JobState::handle_events() {
  for (const auto& event : network_.run->take_events()) {
    last_event_ = event.number;
    if (const auto* const died = std::get_if<Died>(&event.what)) {
      if (fork_ && fork_->process == died->process) fork_.reset();
      note_death(died->process, died->cause);
    } else if (const auto* const recovering = std::get_if<Recovering>(&event.what)) {
      note(*recovering, event.number);
    } else if (const auto* const joined = std::get_if<Joined>(&event.what)) {
      note(*joined);
    } else if (const auto* const wanted = std::get_if<ForkRequest>(&event.what)) {
      fork_ = Fork{.request = wanted->request, .process = wanted->process};
    } else if (const auto* const noted = std::get_if<ForkNoted>(&event.what)) {
      noted_fork_ = noted->request;
    } else if (std::holds_alternative<Aborted>(event.what)) {
      end_ = Error{Errc::cancelled, "the run has been aborted"};
      if (!first_difference_.empty()) end_->what += ": " + first_difference_;
    } else if (std::holds_alternative<AllDone>(event.what)) {
      are_all_done_ = true;
    } else if (const auto* const lost = std::get_if<LauncherLost>(&event.what)) {
      end_ = Error{Errc::peer_failed, "rdmc_run is gone: " + lost->cause.what};
    }
  }
}

// If the program has ended everywhere, the other process has only ended its links earlier.
void JobState::handle_broken_links(Time now) {
  BrokenLinks& broken = network_.links->broken();
  if (are_all_done_) {
    for (const BrokenLinks::Link& link : std::vector(broken.all()))
      network_.links->on_died(link.process, link.cause);
  } else if (const BrokenLinks::Link* const fatal = broken.find_fatal(now); fatal && !end_) {
    end_ =
        Error{fatal->cause.code, "the link to rank " + to_string(assignment_.layout.replica(fatal->process)) +
                                     " has failed: " + fatal->cause.what};
  }
}

std::size_t JobState::work(Time now) {
  // The events come after the deaths that the start includes.
  const bool has_events = has_started_ && network_.run->has_events();
  if (has_events) handle_events();
  if (!network_.links->broken().is_empty()) handle_broken_links(now);
  if (has_started_ && messenger_->has_differences()) tell_differences();
  return has_events ? 1 : 0;
}

void JobState::on_out_of_memory() {
  if (!end_) end_ = Error{Errc::resource_limit, "this process had no memory for an event of the run"};
}

Result<RequestId> JobState::send(ContextId context, std::span<const std::byte> bytes, int to, int tag) {
  const Call call(*this);
  if (auto may = check(); !may) return std::unexpected(may.error());
  if (send_log_) send_log_->add(context, static_cast<std::uint32_t>(to), tag, bytes);
  const RequestId request = messenger_->send(context, bytes, static_cast<std::uint32_t>(to), tag);
  if (network_.links) network_.links->flush_when_due();
  return request;
}

Result<RequestId> JobState::receive(ContextId context, std::span<std::byte> bytes, int from, int tag) {
  const Call call(*this);
  if (auto may = check(); !may) return std::unexpected(may.error());
  const RequestId request = messenger_->receive(context, bytes, from, tag);
  if (network_.links) network_.links->flush_when_due();
  return request;
}

std::optional<JobState::Completion> JobState::find_complete(std::span<const RequestId> requests,
                                                            bool is_choice) {
  std::optional<std::size_t> index;
  if (perturbation_) {
    std::vector<std::size_t> indices;
    const auto shuffled = perturbation_->shuffled(requests, indices);
    if (const auto chosen = messenger_->choose(shuffled)) index = indices[*chosen];
  } else {
    index = messenger_->choose(requests);
  }
  if (!index) return std::nullopt;
  return Completion{*index, messenger_->take(requests[*index], is_choice || requests.size() > 1)};
}

Result<JobState::Completion> JobState::wait_any(Call& call, std::span<const RequestId> requests) {
  if (network_.links) network_.links->flush();
  while (true) {
    if (auto complete = find_complete(requests, false)) return std::move(*complete);
    if (auto may = check(); !may) return std::unexpected(may.error());
    if (!network_.driver)
      return fail(Errc::invalid_argument, "nobody can send this message, because there is only one process");
    turn(call, kLook);
  }
}

Result<JobState::Completion> JobState::wait_any(std::span<const RequestId> requests) {
  Call call(*this);
  return wait_any(call, requests);
}

Result<std::optional<JobState::Completion>> JobState::test_any(std::span<const RequestId> requests) {
  Call call(*this);
  if (network_.links) network_.links->flush();
  if (auto complete = find_complete(requests, true)) return complete;
  turn(call, {});
  if (auto complete = find_complete(requests, true)) return complete;
  if (auto may = check(); !may) return std::unexpected(may.error());
  return std::nullopt;
}

Result<Delivery> JobState::wait(Call& call, RequestId request) {
  auto complete = wait_any(call, std::span(&request, 1));
  if (complete) return std::move(complete->result);
  cancel(call, request);
  return std::unexpected(std::move(complete.error()));
}

Result<Delivery> JobState::wait(RequestId request) {
  Call call(*this);
  return wait(call, request);
}

Result<Delivery> JobState::send_and_wait(ContextId context, std::span<const std::byte> bytes, int to,
                                         int tag) {
  Call call(*this);
  if (auto may = check(); !may) return std::unexpected(may.error());
  if (send_log_) send_log_->add(context, static_cast<std::uint32_t>(to), tag, bytes);
  return wait(call, messenger_->send(context, bytes, static_cast<std::uint32_t>(to), tag));
}

Result<Delivery> JobState::receive_and_wait(ContextId context, std::span<std::byte> bytes, int from,
                                            int tag) {
  Call call(*this);
  if (auto may = check(); !may) return std::unexpected(may.error());
  return wait(call, messenger_->receive(context, bytes, from, tag));
}

void JobState::cancel(Call&, RequestId request) {
  if (is_forked) return;
  while (const auto process = messenger_->cancel(request)) {
    const Error cause{Errc::cancelled, "a message was cancelled while it was being sent"};
    network_.links->on_died(*process, cause);
    // The process is not dead, so this replica does not do any more what the others do.
    if (!end_ && assignment_.layout.most_degree() > 1) end_ = cause;
  }
}

void JobState::cancel(RequestId request) {
  Call call(*this);
  cancel(call, request);
}

Result<std::optional<Delivery>> JobState::probe(ContextId context, int from, int tag, bool waits) {
  Call call(*this);
  while (true) {
    turn(call, {});
    if (const auto found = messenger_->probe(context, from, tag)) return found;
    if (const auto failure = messenger_->failure_of(context, from)) return std::unexpected(*failure);
    if (auto may = check(); !may) return std::unexpected(may.error());
    if (!waits) return std::nullopt;
    if (!network_.driver)
      return fail(Errc::invalid_argument, "nobody can send this message, because there is only one process");
    turn(call, kLook);
  }
}

void JobState::progress() {
  Call call(*this);
  turn(call, {});
}

}  // namespace rdmc::replica
