#include "apps/sim/kv_host.hpp"

namespace rdmc::sim_app {

namespace {

/// As in rdmc_kv (server/replica.cpp).
constexpr std::int64_t kJoinAgain = 100 * kMillisecond;
/// With the planted bug, an event in this number is executed twice.
constexpr std::uint64_t kTwiceOneIn = 16;

/// The kinds of records of the trace. The numbers follow sim::TraceKind::scenario.
enum What : std::uint32_t { kEvent = 1, kStable, kStatus, kLoad, kEnd, kSubmit };

}  // namespace

void KvHost::record(std::uint32_t what, std::uint64_t digest) {
  const auto kind = static_cast<sim::TraceKind>(static_cast<std::uint32_t>(sim::TraceKind::scenario) + what);
  trace_.record(Time{world_.now()}, kind, index_, static_cast<std::uint32_t>(lives_), digest);
}

void KvHost::make_service() {
  ++lives_;
  service_ =
      std::make_unique<kv::Service>(kv::ServiceOptions{.is_alone = false,
                                                       .least_replicas = options_.members / 2 + 1,
                                                       .seed = options_.seed * 1000 + index_ * 100 + lives_});
}

void KvHost::take_part(StateProcess& process) {
  process_ = &process;
  process.clock_ahead = clock_ahead_;
  service_->begin(*this, value_of(process.member));
  service_->on_status({}, clock());
}

void KvHost::begin() {
  make_service();
  take_part(world_.add(this));
}

void KvHost::start() {
  make_service();
  join();
}

void KvHost::join() {
  take_part(world_.join(this));
}

void KvHost::kill() {
  if (process_ != nullptr) world_.kill(process_->member);
  process_ = nullptr;
  service_.reset();
}

void KvHost::end_turn() {
  if (!is_running() || !takes_requests()) return;
  if (process_ == nullptr && world_.now() >= waits_until) join();
  service_->end_turn(clock());
  service_->take_changed();
}

kv::Milliseconds KvHost::clock() const {
  return (world_.now() + clock_ahead_) / kMillisecond;
}

void KvHost::set_clock_ahead(std::int64_t nanoseconds) {
  clock_ahead_ = nanoseconds;
  if (process_ != nullptr) process_->clock_ahead = nanoseconds;
}

state::Bytes KvHost::state() const {
  state::Bytes bytes;
  service_->save(
      [&](std::vector<std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  return bytes;
}

// -- The order --

Result<std::uint64_t> KvHost::submit(std::span<const std::byte> event) {
  auto number = process_->submit(event);
  if (number) record(kSubmit, *number);
  return number;
}

bool KvHost::may_answer(std::uint64_t applied) const {
  const bool may = options_.planted.reads_anywhere || options_.planted.reads_without_lease ||
                   process_->may_answer(applied);
  reads_at_main_ += may;
  return may;
}

void KvHost::on_event(const OrderedEvent& event) {
  record(kEvent, sim::digest(event.bytes.data(), event.bytes.size()) ^ event.position);
  OrderedEvent taken = event;
  if (options_.planted.expires_by_own_clock) taken.time = clock() * kMillisecond;
  service_->on_event(taken);
  if (options_.planted.applies_twice && event.position % kTwiceOneIn == 0) {
    taken.own_number = 0;
    service_->on_event(taken);
  }
  if (options_.planted.answers_before_stable) service_->on_stable(event.position + 1);
}

void KvHost::on_stable(const StableEvents& stable) {
  record(kStable, stable.position);
  service_->on_stable(stable.position);
}

void KvHost::on_status(const ReplicaStatus& status) {
  record(kStatus, std::uint64_t{status.complete_replicas} * 4 + status.is_main * 2u + status.is_complete);
  ReplicaStatus told = status;
  if (options_.planted.reads_anywhere) told.is_main = true;
  service_->on_status(told, clock());
}

void KvHost::on_load(const LoadState& load) {
  record(kLoad, load.bytes.size() ^ load.position);
  if (!service_->on_load(load)) return world_.violation("the state of another server was wrong");
  if (load.step != LoadState::Step::end || !options_.planted.forgets_watches) return;
  for (const std::uint64_t server : service_->databases().watches().servers())
    service_->databases().watches().forget_server(server);
}

/// The server ends its membership, and joins again later, as rdmc_kv does.
void KvHost::on_end(const Error&) {
  record(kEnd, value_of(process_->member));
  service_->end(clock(), kv::Service::AtEnd::drop_state);
  world_.leave(process_->member);
  process_ = nullptr;
  waits_until = world_.now() + kJoinAgain;
}

}  // namespace rdmc::sim_app
