#include "apps/sim/views_scenario.hpp"

#include "apps/sim/views_world.hpp"

namespace rdmc::sim_app {
namespace {

constexpr std::size_t kMostViolations = 20;
/// The interval between checks whether the group is settled.
constexpr Duration kLook = milliseconds(20);
/// After the group has settled, all members must receive from each other for this time, and nothing may
/// change.
constexpr Duration kStaysSettled = milliseconds(200);

std::uint64_t in_microseconds(Duration duration) {
  return static_cast<std::uint64_t>(duration.ns / 1000);
}

}  // namespace

ViewsWorld::ViewsWorld(const ViewsOptions& options)
    : options_(options), simulation_(options.seed), network_(simulation_), store_(simulation_) {
  observer_ = {
      .installed = [this](ViewsMember& member, const view::View& view) { on_installed(member, view); },
      .removed = [this](ViewsMember& member) { on_removed(member); },
      .proposing = [this](ViewsMember& member) { on_proposing(member); },
      .delivered = [this](ViewsMember& member, Epoch epoch,
                          view::MemberId from) { on_delivered(member, epoch, from); },
      .turned = [this](ViewsMember& member) { on_turned(member); }};
  for (std::uint32_t i = 0; i < options.members; ++i) hosts_.push_back(network_.add_host({}));
  elsewhere_ = network_.add_host({});
  current_.resize(options.members);
}

void ViewsWorld::start(sim::HostId host) {
  ViewsMember*& current = current_[value_of(host)];
  if (current != nullptr) stop(*current);
  current = &begin(host, host, machine_of(host));
}

ViewsMember& ViewsWorld::begin(sim::HostId host, sim::HostId at, std::uint64_t machine) {
  const auto id = view::MemberId{simulation_.random().next()};
  ViewsMember::Nature nature{.lease = options_.lease, .machine = machine};
  if (options_.lease > Duration{}) {
    nature.clock_offset = up_to(seconds(100));
    nature.clock_rate = static_cast<std::int64_t>(simulation_.random().below(2 * view::kClockDrift + 1)) -
                        static_cast<std::int64_t>(view::kClockDrift);
  }
  return *processes_.emplace_back(
      std::make_unique<ViewsMember>(network_, store_, host, at, id, options_.timing, nature, observer_));
}

void ViewsWorld::stop(ViewsMember& member) {
  if (member.alive()) simulation_.kill(member.process());
}

void ViewsWorld::run() {
  Time last_start{};
  for (const sim::HostId host : hosts_) {
    const Time at = simulation_.now() + up_to(milliseconds(100));
    last_start = std::max(last_start, at);
    simulation_.at(at, [this, host] { start(host); });
  }
  simulation_.run_until(last_start);
  if (!settle(last_start + kSettledWithin, "the group has not formed")) return;
  formed_in_ = simulation_.now() - last_start;
  plan_faults();
  simulation_.run_until(quiet_);
  heal();
  // The consequences of the last fault may still follow. Only a view that stays unchanged is settled.
  do {
    if (!settle(quiet_ + kSettledWithin, "the group has not settled after the faults")) return;
    settled_in_ = simulation_.now() - quiet_;
  } while (!stays_settled());
}

bool ViewsWorld::settle(Time limit, const std::string& what) {
  while (!is_settled()) {
    if (simulation_.now() >= limit) {
      violation(what);
      return false;
    }
    simulation_.run_until(simulation_.now() + kLook);
  }
  return true;
}

bool ViewsWorld::is_settled() const {
  std::set<view::MemberId> alive;
  for (const ViewsMember* member : current_)
    if (member != nullptr && member->alive()) alive.insert(member->id());
  std::set<view::MemberId> in_view;
  for (const view::Member& member : store_.current().members) in_view.insert(member.id);
  // After the last member has died, no process can change the view.
  if (alive != in_view && !alive.empty()) return false;
  if (options_.lease > Duration{} && !alive.empty() && !is_served()) return false;
  return std::ranges::all_of(current_, [&](const ViewsMember* member) {
    return member == nullptr || !member->alive() || member->installed() == store_.current().epoch;
  });
}

/// Returns true if nothing changes for kStaysSettled. Also checks that the fence admits the data of all
/// members.
bool ViewsWorld::stays_settled() {
  const Epoch epoch = store_.current().epoch;
  heard_.clear();
  simulation_.run_until(simulation_.now() + kStaysSettled);
  if (store_.current().epoch != epoch || !is_settled()) return false;
  const auto alive = static_cast<std::size_t>(std::ranges::count_if(
      current_, [](const ViewsMember* member) { return member != nullptr && member->alive(); }));
  if (heard_.size() != alive * (alive - (alive > 0 ? 1 : 0)))
    violation("members of a settled view do not hear each other");
  return true;
}

void ViewsWorld::on_installed(ViewsMember& member, const view::View& view) {
  const auto agreed = store_.history().find(view.epoch);
  if (agreed == store_.history().end())
    violation("a view is acted on that the store has not accepted");
  else if (agreed->second != view)
    violation("two views of one epoch");
  if (view.epoch <= member.installed()) violation("an epoch is installed after a later one");
  if (!view.contains(member.id())) violation("a view is installed by who is not in it");
  look_for_removals();
}

void ViewsWorld::on_removed(ViewsMember& member) {
  removals_ += leavers_.contains(member.id()) ? 0 : 1;
  healthy_removals_ += leavers_.contains(member.id()) || starved_.contains(member.id()) ? 0 : 1;
  // The removed process is started again as a new process.
  simulation_.at(simulation_.now() + milliseconds(50), [this, &member] {
    if (member.host() != elsewhere_ && current_[value_of(member.host())] == &member && member.alive())
      start(member.host());
  });
}

void ViewsWorld::on_delivered(ViewsMember& member, Epoch epoch, view::MemberId from) {
  ++delivered_;
  heard_.emplace(from, member.id());
  const auto agreed = store_.history().find(epoch);
  if (member.was_removed() || member.installed() != epoch || agreed == store_.history().end() ||
      !agreed->second.contains(member.id()) || !agreed->second.contains(from))
    violation("something is taken in of an epoch that its sender or receiver is not in");
}

/// Returns true if the member may serve what the view assigns to one member only.
bool ViewsWorld::may_serve(const ViewsMember& member) const {
  const view::View& view = member.core().view();
  if (!member.alive() || member.core().state() != view::FailureView::State::member) return false;
  const std::size_t index = options_.rotate ? value_of(view.epoch) % view.members.size() : 0;
  return view.members[index].id == member.id();
}

bool ViewsWorld::is_served() const {
  return std::ranges::any_of(current_, [&](const ViewsMember* member) {
    return member != nullptr && may_serve(*member) && member->serves_from() <= simulation_.now() &&
           simulation_.now() < member->serves_until();
  });
}

/// A member that may serve by its own clock may do so until its lease ends, without another turn, because its
/// threads check only the clock. Therefore, from now on, no instant may belong to two members.
void ViewsWorld::on_turned(ViewsMember& member) {
  if (options_.lease == Duration{} || !may_serve(member)) return;
  const Time now = simulation_.now(), from = std::max(now, member.serves_from());
  if (from >= member.serves_until()) return;
  if (from == now && std::exchange(server_, member.id()) != member.id()) ++handovers_;
  for (const auto& other : processes_)
    if (other.get() != &member && may_serve(*other) &&
        std::max(from, other->serves_from()) < std::min(member.serves_until(), other->serves_until()))
      violation("two processes serve at once");
}

void ViewsWorld::look_for_removals() {
  std::erase_if(deaths_, [&](const Death& death) {
    for (const ViewsMember* member : current_)
      if (member != nullptr && member->alive() && member->core().view().contains(death.member)) return false;
    slowest_removal_ = std::max(slowest_removal_, simulation_.now() - death.at);
    ++deaths_noticed_;
    return true;
  });
}

void ViewsWorld::violation(std::string what) {
  if (violations_.size() < kMostViolations)
    violations_.push_back(std::move(what) + " (at " + std::to_string(simulation_.now().ns / 1000) + " us)");
}

ScenarioResult ViewsWorld::result() {
  ScenarioResult result;
  result.trace_hash = simulation_.trace().hash();
  result.virtual_seconds = (simulation_.now() - Time{}).seconds();
  result.events = simulation_.events();
  std::uint64_t suspicions = 0, conflicts = 0, disagreements = 0, stores_lost = 0;
  std::uint64_t listeners_asked = 0, address_claims_denied = 0;
  for (const auto& process : processes_) {
    const auto& counters = process->core().counters();
    suspicions += counters.suspicions;
    conflicts += counters.conflicts;
    disagreements += counters.disagreements;
    listeners_asked += counters.listeners_asked;
    address_claims_denied += counters.address_claims_denied;
    stores_lost += process->stores_lost();
  }
  if (disagreements > 0) violation("a process was told of two views of one epoch");
  result.violations = violations_;
  for (std::size_t i = 0; i < kViewsFaults.size(); ++i)
    result.faults[std::string(kViewsFaults[i])] = struck_[i];
  for (const sim::Fault fault :
       {sim::Fault::loss, sim::Fault::duplicate, sim::Fault::reorder, sim::Fault::delay})
    result.faults[std::string(sim::name(fault))] = simulation_.faults()[fault];
  result.figures = {
      {"views", store_.history().size()},
      {"formed_us", in_microseconds(formed_in_)},
      {"settled_us", in_microseconds(settled_in_)},
      {"removal_us", in_microseconds(slowest_removal_)},
      {"deaths_noticed", deaths_noticed_},
      {"removals", removals_},
      {"healthy_removals", healthy_removals_},
      {"claims", store_.claims()},
      {"delivered", delivered_},
      {"suspicions", suspicions},
      {"conflicts", conflicts},
      {"listeners_asked", listeners_asked},
      {"address_claims_denied", address_claims_denied},
      {"stores_lost", stores_lost},
      {"handovers", handovers_},
      {"waits", static_cast<std::uint64_t>(std::ranges::count_if(
                    store_.history(), [](const auto& entry) { return !entry.second.held.empty(); }))}};
  return result;
}

ScenarioResult run_views(const ViewsOptions& options) {
  ViewsWorld world(options);
  world.run();
  return world.result();
}

}  // namespace rdmc::sim_app
