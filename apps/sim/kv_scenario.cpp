#include "apps/sim/kv_scenario.hpp"

#include <algorithm>
#include <utility>

#include "apps/sim/kv_world.hpp"

namespace rdmc::sim_app {

namespace {

constexpr std::size_t kMostViolations = 20;
constexpr std::int64_t kUsualPace = 20'000;
/// The clocks of the servers differ by less than this, in nanoseconds.
constexpr std::uint64_t kClocksDiffer = 20 * kMillisecond;
constexpr std::uint64_t kOperationsOfRound = 60;
constexpr std::uint64_t kStepsToSettle = 400'000;
/// Some keys expire in the time between the reads at the end.
constexpr std::uint64_t kLongestRest = 300 * kMillisecond;
constexpr std::size_t kMostStates = 300'000;
/// The time at which the service begins, in nanoseconds since 1970.
constexpr std::int64_t kFirstTime = 1'700'000'000'000'000'000;

KvClientsOptions clients_of(const KvOptions& options) {
  const bool clocks_jump = options.strikes[static_cast<std::size_t>(KvFault::clock)] != 0;
  return {.seed = options.seed,
          .clients = options.clients,
          .operations_of_round = kOperationsOfRound,
          .uses_deadlines = true,
          .clocks_differ = clocks_jump ? std::nullopt : std::optional<std::int64_t>(kClocksDiffer),
          .may_fail = std::ranges::any_of(options.strikes, [](std::uint32_t times) { return times != 0; })};
}

}  // namespace

KvWorld::KvWorld(const KvOptions& options)
    : options_(options),
      random_(options.seed),
      world_(options.seed, options.members / 2 + 1),
      clients_(clients_of(options)),
      pace_(kUsualPace) {
  world_.pass(kFirstTime);
  world_.transfers_fail_one_in = 0;
  for (std::uint32_t i = 0; i < options_.members; ++i) {
    hosts_.push_back(std::make_unique<KvHost>(world_, trace_, i, options_));
    hosts_.back()->set_clock_ahead(static_cast<std::int64_t>(below(kClocksDiffer)));
    hosts_.back()->begin();
  }
  world_.start();
  began_ = world_.now();
}

void KvWorld::violation(const std::string& what) {
  if (violations_.size() < kMostViolations) violations_.push_back(what);
}

KvHost& KvWorld::any_running() {
  for (;;)
    if (KvHost& host = *hosts_[below(hosts_.size())]; host.is_running()) return host;
}

KvHost* KvWorld::host_of(MemberId member) {
  const auto found = std::ranges::find_if(hosts_, [&](const auto& host) {
    return host->process() != nullptr && host->process()->member == member;
  });
  return found == hosts_.end() ? nullptr : found->get();
}

/// One process or one client does one thing.
void KvWorld::step() {
  ++steps_;
  world_.pass(1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(pace_))));
  if (chance(repair_one_in_)) world_.repair();
  start_dead();
  switch (below(8)) {
    case 0: return any_running().end_turn();
    case 1: return clients_.step([this]() -> KvServer& { return any_running(); }, world_.now());
    default: return world_.step();
  }
}

void KvWorld::start_dead() {
  for (const auto& host : hosts_)
    if (!host->is_running() && world_.now() >= host->waits_until) host->start();
}

void KvWorld::run() {
  plan_faults();
  while (steps_ < options_.steps || !planned_.empty()) {
    if (steps_ > options_.steps * 20) break;  // The faults that are left cannot strike.
    strike_due();
    step();
  }
  heal();
  settle();
  read_everywhere();
  compare_states();
  check_history();
}

// -- The checks --

bool KvWorld::is_settled() {
  return clients_.have_all_replies() && world_.group().size() == hosts_.size() &&
         std::ranges::all_of(hosts_, [](const auto& host) { return host->is_complete(); }) &&
         world_.is_settled();
}

/// The servers and the clients go on until nothing is left to do.
void KvWorld::settle() {
  for (std::uint64_t i = 0; i < kStepsToSettle; ++i) {
    if (i % 100 == 0 && is_settled()) return;
    world_.pass(1 + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(pace_))));
    if (chance(repair_one_in_)) world_.repair();
    if (chance(8)) {
      any_running().end_turn();
      clients_.read_replies(world_.now());
    } else {
      world_.step();
    }
  }
  violation("the service does not come to rest after the faults" + world_.describe());
  if (!clients_.have_all_replies()) violation("a client gets no reply");
}

void KvWorld::read_everywhere() {
  if (!violations_.empty()) return;
  for (const auto& host : hosts_) {
    world_.pass(1 + static_cast<std::int64_t>(below(kLongestRest)));
    clients_.read_everything(*host, world_.now());
    settle();
  }
}

void KvWorld::compare_states() {
  if (!violations_.empty()) return;
  const auto first = hosts_.front()->state();
  for (const auto& host : hosts_) {
    const auto state = host->state();
    trace_.record(Time{world_.now()}, sim::TraceKind::scenario, 0, 0,
                  sim::digest(state.data(), state.size()));
    if (state != first) violation("two servers have different states after the same events");
  }
}

void KvWorld::check_history() {
  for (const kv::Operation& one : clients_.history) {
    const std::string text = to_string(one);
    trace_.record(Time{one.called}, sim::TraceKind::scenario, 1, 0, sim::digest(text.data(), text.size()));
  }
  for (const auto* const found : {&world_.violations, &clients_.violations})
    for (const std::string& what : *found) violation(what);
  const auto checked = check_linearizable(clients_.history, kMostStates);
  if (checked) return;
  if (checked.error().code == Errc::resource_limit)
    is_unchecked_ = 1;
  else
    violation("the history is not linearizable: " + checked.error().what);
}

ScenarioResult KvWorld::result() {
  ScenarioResult result;
  result.trace_hash = trace_.hash();
  result.virtual_seconds = static_cast<double>(world_.now() - began_) / 1e9;
  result.events = trace_.count();
  result.violations = violations_;
  for (std::size_t i = 0; i < kKvFaults.size(); ++i) result.faults[std::string(kKvFaults[i])] = struck_[i];
  std::uint64_t reads = 0, expired = 0;
  for (const auto& host : hosts_) {
    reads += host->reads_at_main();
    if (host->is_running()) expired = std::max(expired, host->service().databases().expired());
  }
  result.figures = {
      {"operations", clients_.begun},    {"given_up", clients_.given_up}, {"refused", clients_.refused},
      {"uncertain", clients_.uncertain}, {"reads_at_main", reads},        {"expired", expired},
      {"transfers", world_.transfers},   {"takeovers", world_.takeovers}, {"unchecked", is_unchecked_}};
  return result;
}

ScenarioResult run_kv(const KvOptions& options) {
  KvWorld world(options);
  world.run();
  return world.result();
}

}  // namespace rdmc::sim_app
