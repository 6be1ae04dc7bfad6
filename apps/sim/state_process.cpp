// This file has the way between a StateWorld and the application of a process, in both directions.
#include "apps/sim/state_process.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "apps/sim/state_world.hpp"

namespace rdmc::sim_app {

using state::Bytes;

namespace {

constexpr std::size_t kIdBytes = 16;

/// Takes the name of an event from the front of its bytes.
EventId take_id(std::span<const std::byte>& bytes) {
  std::uint64_t words[2];
  std::memcpy(words, bytes.data(), kIdBytes);
  bytes = bytes.subspan(kIdBytes);
  return {MemberId{words[0]}, words[1]};
}

}  // namespace

void StateWorld::transfer(StateProcess& one) {
  if (!one.load || one.has_ended) return;
  const auto found = snapshots_.find(one.load->serial);
  const bool has_snapshot = found != snapshots_.end();
  const bool has_donor = is_in_group(one.load->from) && (*this)[one.load->from].is_alive;
  const auto serial = one.load->serial;
  if (does_transfer_fail(has_snapshot, has_donor)) {
    ++failed_transfers;
    one.load.reset();
    one.core.load_failed(serial);
    if (has_snapshot && one.application != nullptr) {
      const std::span<const std::byte> all = found->second.state;
      one.application->on_load({.step = LoadState::Step::bytes, .bytes = all.first(below(all.size() + 1))});
    }
  } else if (has_snapshot) {
    const auto head = state::decode_snapshot_head(*found->second.head);
    if (!head) return violation("the head of a state is not valid: " + head.error().what);
    one.load.reset();
    if (one.core.loaded(serial, *head)) {
      ++transfers;
      one.has_begun = true;
      one.applied = found->second.applied;
      one.base = {.epoch = head->epoch, .position = head->position, .time = head->time};
      one.in_base = one.applied.size();
      one.persisted = 0;
      one.ordered = head->position;
      one.begun_anew = found->second.begun_anew;
      load(one, found->second.state, head->position);
    }
  }
  go_on(one);
}

bool StateWorld::does_transfer_fail(bool has_snapshot, bool has_donor) {
  if (!has_snapshot) return !has_donor && chance(4);
  if (failing_transfers == 0) return transfers_fail_one_in != 0 && chance(transfers_fail_one_in);
  --failing_transfers;
  return true;
}

/// The application gets the state in pieces of any length.
void StateWorld::load(StateProcess& one, const Bytes& state, std::uint64_t position) {
  if (one.application == nullptr) return;
  for (std::span<const std::byte> rest = state; !rest.empty();) {
    const auto piece = rest.first(1 + below(rest.size()));
    one.application->on_load({.step = LoadState::Step::bytes, .bytes = piece});
    rest = rest.subspan(piece.size());
  }
  one.application->on_load({.step = LoadState::Step::end, .position = position});
}

void StateWorld::take(StateProcess& one) {
  if (one.changes.empty() || one.slow_until > now_) return;
  state::Change next = std::move(one.changes.front());
  one.changes.pop_front();
  std::visit([&](auto& change) { handle(one, change); }, next);
}

void StateWorld::handle(StateProcess& one, OrderedEvent& event) {
  const auto id = take_id(event.bytes);
  note_applied(one, {event.position, event.epoch, event.time, event.random, id});
  if ((id.from == one.member ? id.number : 0) != event.own_number)
    violation("an event has the own number " + std::to_string(event.own_number) + " in place of " +
              std::to_string(id.number));
  if (id.from == one.member) one.unanswered[id] = event.position;
  if (one.application != nullptr) one.application->on_event(event);
}

void StateWorld::note_applied(StateProcess& one, const AppliedEvent& applied) {
  if (!one.applied.empty() &&
      (one.applied.back().position >= applied.position || one.applied.back().time > applied.time))
    violation("the position or the time of an event goes back");
  if (one.applied.size() > one.in_base && one.applied.back().epoch > applied.epoch)
    violation("the epoch of an event goes back");
  one.applied.push_back(applied);
  if (was_left_out_.contains(one.member)) return;  // What it puts into the order now is void.
  const auto [known, is_new] = order_.try_emplace(applied.position, applied);
  if (is_new || known->second == applied) return;
  // An event that only processes have applied which are gone may be replaced.
  for (const auto& other : processes)
    if (other->is_alive && !other->has_ended && takes_part(*other) && other->status.is_complete)
      for (const AppliedEvent& theirs : other->applied)
        if (theirs.position == applied.position && theirs != applied)
          violation("two members have different events at the position " + std::to_string(applied.position));
  if (answered.contains(known->second.id) && known->second.id != applied.id)
    violation("an answered event was replaced");
  known->second = applied;
}

void StateWorld::handle(StateProcess& one, const StableEvents& stable) {
  if (one.status.awaits_earlier_leases) violation("an event is stable before the earlier leases are over");
  check_disks_have(one, stable.position);
  std::erase_if(one.unanswered, [&](const auto& event) {
    if (event.second < stable.position && one.begun_anew == begun_anew) answered.insert(event.first);
    return event.second < stable.position;
  });
  if (one.application != nullptr) one.application->on_stable(stable);
}

/// Enough disks have what is reported stable.
void StateWorld::check_disks_have(const StateProcess& one, std::uint64_t position) {
  if (disks != Disks::awaited || !takes_part(one)) return;
  const auto after = std::ranges::lower_bound(one.applied, position, {}, &AppliedEvent::position);
  if (after == one.applied.begin()) return;
  const AppliedEvent& last = *std::prev(after);
  const auto has = [&](const auto& other) {
    const StateDisk& disk = other->disk;
    return !replaced_.contains(other->member) &&
           (disk.wiped.contains(last.position) ||
            std::ranges::binary_search(disk.applied, last.position, {}, &AppliedEvent::position));
  };
  if (std::ranges::count_if(processes, has) < static_cast<std::ptrdiff_t>(least_))
    violation("an event is stable, and too few disks have it");
}

/// The disk of a process gets some more of what its application has applied.
void StateWorld::write_to_disk(StateProcess& one) {
  if (disks == Disks::none || one.load || !one.status.is_complete) return;
  const std::size_t least = std::max(one.persisted, one.in_base);
  const std::size_t count = least + below(one.applied.size() - least + 1);
  one.persisted = count;
  one.disk.applied.assign(one.applied.begin(), one.applied.begin() + static_cast<std::ptrdiff_t>(count));
  if (count == one.in_base)
    one.disk.stored = one.base;
  else
    one.disk.stored = {.epoch = one.applied[count - 1].epoch,
                       .position = one.applied[count - 1].position + 1,
                       .time = one.applied[count - 1].time};
  one.core.persisted(one.disk.stored.position);
  go_on(one);
}

void StateWorld::check_nobody_else_answers(const StateProcess& one) {
  for (const auto& other : processes) {
    if (is_in_group(other->member) || !other->is_alive || other->has_ended) continue;
    const bool answers =
        other->status.is_main && other->core.may_commit() && !ended_leases_.contains(other->member);
    if (answers)
      violation("member " + std::to_string(value_of(other->member)) + " still answers while " +
                std::to_string(value_of(one.member)) + " goes on");
  }
}

void StateWorld::handle(StateProcess& one, const ReplicaStatus& status) {
  one.status = status;
  if (one.application != nullptr) one.application->on_status(status);
}

void StateWorld::handle(StateProcess& one, state::Save& save) {
  Bytes state;
  if (one.application != nullptr) state = one.application->save();
  snapshots_[save.serial] = {std::move(save.head), std::move(state), one.applied, one.begun_anew};
}

void StateWorld::handle(StateProcess& one, const state::Load& load) {
  one.applied.clear();
  one.in_base = one.persisted = 0;
  one.load = load;
  if (one.application != nullptr) one.application->on_load({.step = LoadState::Step::begin});
}

void StateWorld::handle(StateProcess& one, const state::Fault& fault) {
  if (fault.cause.code != Errc::peer_failed) violation("a replica has ended: " + fault.cause.what);
  one.has_ended = true;
  if (one.application != nullptr) one.application->on_end(fault.cause);
}

// -- The processes --

/// An event begins with its name, so that the world recognizes it.
Result<std::uint64_t> StateProcess::submit(std::span<const std::byte> bytes) {
  Bytes named(kIdBytes + bytes.size());
  const std::uint64_t words[] = {value_of(member), submitted + 1};
  std::memcpy(named.data(), words, kIdBytes);
  std::ranges::copy(bytes, named.begin() + kIdBytes);
  const auto number = core.submit(named);
  if (number && *number != ++submitted) world.violation("an event got a wrong number");
  world.go_on(*this);
  return number;
}

bool StateProcess::may_answer(std::uint64_t position) const {
  const std::uint64_t answering = core.answering_epoch();
  return answering != 0 && position >= ordered && is_open(answering) && !world.ended_leases_.contains(member);
}

Result<std::uint64_t> StateProcess::send(std::shared_ptr<const Bytes> message) {
  // A root that was left out puts events into an order that nobody else gets.
  if (is_root && world.is_left_out(member) && !has_ended) return delivered++;
  if (!world.takes_part(*this) || world.root_ != member)
    return rdmc::fail(Errc::would_block, "not the root of an open epoch");
  // A full queue has room again when a message has become stable.
  if (stable < world.log_.size() && world.chance(5)) return rdmc::fail(Errc::would_block, "full");
  world.log_.push_back(std::move(message));
  delivered = world.log_.size();
  return world.log_.size() - 1;
}

Result<void> StateProcess::tell_main(const Bytes& note) {
  if (!world.takes_part(*this)) return rdmc::fail(Errc::would_block, "no open epoch");
  world.notes_[member].push_back(note);
  return {};
}

void StateProcess::hand_over(MemberId to) {
  if (world.takes_part(*this)) world.wish_ = to;
}

void StateProcess::remove(MemberId other) {
  if (world.removed_.insert(other).second) ++world.removals;
}

bool StateProcess::is_open(std::uint64_t newest) const {
  return epoch == newest && (world.epoch_ == newest || world.is_left_out(member));
}

bool StateProcess::is_paused() const {
  return paused_until > world.now_;
}

}  // namespace rdmc::sim_app
