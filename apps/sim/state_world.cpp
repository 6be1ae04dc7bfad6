#include "apps/sim/state_world.hpp"

#include <utility>

namespace rdmc::sim_app {

StateProcess& StateWorld::add(StateApplication* application) {
  return add({}, application);
}

StateProcess& StateWorld::add(StateDisk disk, StateApplication* application) {
  const MemberId id{processes.size() + 1};
  state::AgreedInput::Config config{.member = id,
                                    .id = state::ReplicaId{value_of(id) + 1000},
                                    .least_replicas = least_,
                                    .first_replicas = first_replicas_,
                                    .stored = {},
                                    .awaits_disk = disks == Disks::awaited};
  if (disks != Disks::none) config.stored = disk.stored;
  processes.push_back(std::make_unique<StateProcess>(*this, config, application));
  StateProcess& one = *processes.back();
  one.base = disk.stored;
  one.applied = disk.applied;
  one.in_base = one.persisted = one.applied.size();
  one.disk = std::move(disk);
  alive_.push_back(&one);
  members_.push_back(id);
  return one;
}

StateProcess& StateWorld::restart(MemberId id) {
  ++restarts;
  if ((*this)[id].is_alive) kill(id);
  replaced_.insert(id);
  StateProcess& one = add(std::exchange((*this)[id].disk, {}), nullptr);
  one.begun_anew = (*this)[id].begun_anew;
  // As applications do, also if the state of another replica will take the place of the stored one.
  one.core.persisted(one.disk.stored.position);
  install();
  return one;
}

void StateWorld::start() {
  install();
  begin_epoch(alive_in_view());
  run_until([&] { return open_everywhere(); });
}

void StateWorld::violation(std::string what) {
  constexpr std::size_t kMostViolations = 20;
  if (violations.size() < kMostViolations) violations.push_back(std::move(what));
}

std::size_t StateWorld::complete() {
  return static_cast<std::size_t>(std::ranges::count_if(group_, [&](MemberId id) {
    const StateProcess& one = (*this)[id];
    return one.is_alive && one.status.is_complete;
  }));
}

bool StateWorld::has_another(MemberId than) {
  return std::ranges::any_of(alive_in_group(), [&](MemberId id) { return id != than && was_member(id); });
}

bool StateWorld::is_lost() {
  // What the disks have is enough, if enough processes are started again.
  if (disks != Disks::none) return false;
  return std::ranges::none_of(group_, [&](MemberId id) {
    StateProcess& one = (*this)[id];
    return one.is_alive && (one.status.is_complete || one.load);
  });
}

void StateWorld::kill(MemberId id) {
  leave(id);
  ++deaths;
}

void StateWorld::leave(MemberId id) {
  StateProcess& one = (*this)[id];
  one.is_alive = false;
  std::erase(alive_, &one);
}

void StateWorld::leave_out(MemberId id) {
  ++left_out;
  auto members = alive_in_group();
  std::erase(members, id);
  if (!members.empty()) begin_epoch(members);
}

StateProcess& StateWorld::join(StateApplication* application) {
  StateProcess& one = add(application);
  const MemberId id = one.member;
  // A process that opens the state late may be an old member of the view.
  if (chance(2)) {
    members_.pop_back();
    members_.insert(members_.begin() + static_cast<std::ptrdiff_t>(below(members_.size() + 1)), id);
  }
  install();
  return one;
}

void StateWorld::wipe(MemberId id) {
  StateDisk& disk = (*this)[id].disk;
  for (const AppliedEvent& event : disk.applied) disk.wiped.insert(event.position);
  disk.stored = {};
  disk.applied.clear();
}

void StateWorld::repair() {
  const auto waits = [&](MemberId id) {
    const StateProcess& one = (*this)[id];
    return one.is_alive && one.is_paused() && !was_left_out_.contains(id);
  };
  const bool group_waits = std::ranges::any_of(group_, waits) || std::ranges::any_of(members_, waits);
  std::erase_if(members_, [&](MemberId id) { return !(*this)[id].is_alive || removed_.contains(id); });
  if (views_.back().members.size() != members_.size()) install();
  if (group_waits) return;
  if (disks != Disks::none && alive_in_group().empty()) return begin_group();
  std::vector<MemberId> members;
  for (const MemberId id : members_)
    if (!was_left_out_.contains(id) && !(*this)[id].has_ended) members.push_back(id);
  if ((members != group_ || wish_) && !members.empty()) begin_epoch(members);
}

void StateWorld::begin_anew() {
  StateProcess& main = (*this)[root_];
  if (!main.is_alive || main.has_ended || !main.status.is_lost || !main.core.begin_anew()) return;
  main.begun_anew = ++begun_anew;
  main.load.reset();
  main.has_begun = true;
  main.applied.clear();
  answered.clear();
  go_on(main);
}

void StateWorld::step() {
  if (alive_.empty()) return;
  StateProcess& one = *alive_[below(alive_.size())];
  if (one.is_paused()) return;
  switch (below(disks == Disks::none ? 8 : 9)) {
    case 0: return open(one);
    case 1: return deliver(one);
    case 2: return tell_stable(one);
    case 3: return deliver_note(one);
    case 4: return follow_view(one);
    case 5: return end_lease(one);
    case 6: return transfer(one);
    case 7: return disks == Disks::none ? take(one) : write_to_disk(one);
    default: return take(one);
  }
}

std::string StateWorld::describe() {
  std::string text = ": epoch " + std::to_string(epoch_) + ", root " + std::to_string(value_of(root_)) +
                     ", " + std::to_string(log_.size()) + " messages";
  for (const MemberId id : group_) {
    const StateProcess& one = (*this)[id];
    text += "\n  " + std::to_string(value_of(id)) + (one.is_alive ? "" : " dead") +
            (one.has_ended ? " ended" : "") + " epoch " + std::to_string(one.epoch) + " delivered " +
            std::to_string(one.delivered) + " stable " + std::to_string(one.stable) + " changes " +
            std::to_string(one.changes.size()) + " unanswered " + std::to_string(one.unanswered.size()) +
            (one.load ? " loads" : "") + (one.status.is_complete ? " complete" : "") + " knows " +
            std::to_string(one.status.complete_replicas) + " notes " + std::to_string(notes_[id].size()) +
            " own " + std::to_string(applied_of(one, id)) + " of " + std::to_string(one.submitted);
  }
  return text;
}

bool StateWorld::is_settled() {
  return std::ranges::all_of(group_, [&](MemberId id) {
    StateProcess& one = (*this)[id];
    return !one.is_alive || one.has_ended ||
           (one.changes.empty() && one.unanswered.empty() && !one.load && one.status.is_complete &&
            one.status.complete_replicas == group_.size() && one.status.stored_replicas == group_.size() &&
            one.epoch == epoch_ && one.delivered == log_.size() && one.stable == log_.size() &&
            notes_[id].empty() && applied_of(one, id) == one.submitted);
  });
}

void StateWorld::settle() {
  repair();
  run_until([&, quiet = 0]() mutable {
    if (++quiet % 500 != 0) return false;
    repair();
    return is_lost() || is_settled();
  });
}

std::vector<MemberId> StateWorld::alive_in_view() {
  std::vector<MemberId> alive;
  for (const MemberId id : members_)
    if ((*this)[id].is_alive) alive.push_back(id);
  return alive;
}

std::vector<MemberId> StateWorld::alive_in_group() {
  std::vector<MemberId> alive;
  for (const MemberId id : group_)
    if ((*this)[id].is_alive && !(*this)[id].has_ended) alive.push_back(id);
  return alive;
}

bool StateWorld::open_everywhere() {
  return std::ranges::all_of(group_, [&](MemberId id) { return (*this)[id].epoch == epoch_; });
}

void StateWorld::go_on(StateProcess& one) {
  now_ += static_cast<std::int64_t>(below(1000));
  // The clocks of the processes differ, and go back now and then.
  one.core.order(now_ + one.clock_ahead + static_cast<std::int64_t>(below(5000)), random_());
  std::vector<state::Change> news;
  one.core.take_changes(news);
  for (state::Change& next : news) {
    if (std::holds_alternative<StableEvents>(next) && takes_part(one)) {
      check_nobody_else_answers(one);
      // A member that dies stays in the group for a while. With disks, check_disks_have() checks more.
      const auto has_state = [&](MemberId id) { return !(*this)[id].load && (*this)[id].has_begun; };
      if (disks == Disks::none &&
          std::ranges::count_if(group_, has_state) < static_cast<std::ptrdiff_t>(least_))
        violation("events are stable while fewer replicas have the state than must have it");
    }
    if (const auto* const event = std::get_if<OrderedEvent>(&next)) one.ordered = event->position + 1;
    one.changes.push_back(std::move(next));
  }
}

void StateWorld::install() {
  View view{.epoch = Epoch{views_.size() + 1}, .members = {}};
  for (const MemberId id : members_)
    view.members.push_back({.id = id, .name = {}, .address = {}, .since = {}});
  views_.push_back(std::move(view));
}

/// All members of the group have died. The group begins with others when these are enough, by the numbers
/// that they give.
void StateWorld::begin_group() {
  auto members = alive_in_view();
  std::erase_if(members, [&](MemberId id) { return was_left_out_.contains(id) || (*this)[id].has_ended; });
  std::size_t least = 1;
  for (const MemberId id : members) {
    const StateProcess& one = (*this)[id];
    least = std::max(least, one.disk.stored.position == 0 ? first_replicas_ : first_replicas_ - least_ + 1);
  }
  if (members.size() < least) return;
  ++begun_from_disks;
  // The store of views may have been begun anew, too. Then the epochs begin again.
  const auto is_zombie = [&](MemberId id) { return (*this)[id].is_alive; };
  if (chance(2) && std::ranges::none_of(was_left_out_, is_zombie)) epoch_ = 0;
  log_.clear();
  snapshots_.clear();
  next_ = 0;
  group_.clear();
  root_ = {};
  wish_.reset();
  begin_epoch(members);
}

void StateWorld::begin_epoch(std::vector<MemberId> members) {
  for (const MemberId id : group_)
    if (std::ranges::find(members, id) == members.end() && (*this)[id].is_alive) was_left_out_.insert(id);
  const bool stays = std::ranges::find(members, root_) != members.end();
  std::uint64_t least = next_;
  for (const MemberId id : members) least = std::max(least, was_member(id) ? (*this)[id].stable : 0);
  for (const MemberId id : members)
    if (id != root_ && was_member(id)) least = std::max(least, (*this)[id].delivered);
  MemberId root = stays ? root_ : members.front();
  if (!stays && root_ != MemberId{}) ++takeovers;
  if (wish_ && std::ranges::find(members, *wish_) != members.end()) root = *wish_;
  wish_.reset();
  next_ = stays && root != root_ ? log_.size() : least + below(log_.size() - least + 1);
  if (root != root_ || !stays) log_.resize(next_);
  // Every survivor gets the messages below next_. Who joins gets no earlier message.
  for (const MemberId id : members) {
    StateProcess& one = (*this)[id];
    if (!was_member(id)) {
      one.delivered = next_;
    } else if (id != root_) {
      while (one.delivered < next_ && !one.has_ended) receive(one);
    } else if (root != root_) {
      one.delivered = next_;
    }
  }
  group_ = std::move(members);
  root_ = root;
  ++epoch_;
  epoch_view_ = views_.size();
  notes_.clear();
}

void StateWorld::receive(StateProcess& one) {
  one.core.on_message(one.delivered, log_[one.delivered]);
  ++one.delivered;
  go_on(one);
}

void StateWorld::open(StateProcess& one) {
  if (one.has_ended || !is_in_group(one.member) || one.epoch == epoch_) return end_part(one);
  if (one.member != root_ && (*this)[root_].epoch != epoch_) return;
  // A member takes part in an epoch only after it has installed the view in which the epoch was begun.
  while (one.view < epoch_view_) follow_view(one);
  one.epoch = epoch_;
  one.is_root = one.member == root_;
  one.stable = next_;
  if (one.member == root_) one.delivered = log_.size();
  if (next_ == 0) one.has_begun = true;
  one.core.on_stable(next_);  // The group says this before it says that it goes on.
  go_on(one);
  one.core.on_continued({.epoch = epoch_, .members = group_, .root = root_, .next = next_});
  go_on(one);
}

void StateWorld::end_part(StateProcess& one) {
  if (!was_left_out_.contains(one.member) || one.has_ended || !chance(20)) return;
  one.core.end({Errc::peer_failed, "left out"});
  go_on(one);
}

void StateWorld::deliver(StateProcess& one) {
  if (takes_part(one) && one.member != root_ && one.delivered < log_.size()) receive(one);
}

void StateWorld::tell_stable(StateProcess& one) {
  if (!takes_part(one)) return;
  std::uint64_t stable = log_.size();
  for (const MemberId id : group_) stable = std::min(stable, std::max((*this)[id].delivered, next_));
  if (stable <= one.stable) return;
  one.stable += 1 + below(stable - one.stable);
  one.core.on_stable(one.stable);
  go_on(one);
}

void StateWorld::deliver_note(StateProcess& one) {
  auto& notes = notes_[one.member];
  StateProcess& root = (*this)[root_];
  if (notes.empty() || !root.is_alive || root.is_paused() || root.epoch != epoch_) return;
  const Bytes note = notes.front();
  notes.pop_front();
  root.core.on_note(one.member, note);
  go_on(root);
}

void StateWorld::follow_view(StateProcess& one) {
  if (one.view == views_.size()) return;
  const View& next = views_[one.view];
  ++one.view;
  if (next.find(one.member) == nullptr) return;
  one.core.on_view(next);
  go_on(one);
}

void StateWorld::end_lease(StateProcess& one) {
  for (const auto& other : processes)
    if (views_.back().find(other->member) == nullptr && chance(3)) ended_leases_.insert(other->member);
  if (one.view == 0) return;
  const View& view = views_[one.view - 1];
  for (const auto& other : processes) {
    const bool was_in_view = std::any_of(views_.begin(), views_.begin() + static_cast<long>(one.view),
                                         [&](const View& old) { return old.find(other->member); });
    if (was_in_view && view.find(other->member) == nullptr && !ended_leases_.contains(other->member)) return;
  }
  if (view.epoch <= one.leases_over) return;
  one.leases_over = view.epoch;
  one.core.on_leases_over(view.epoch);
  go_on(one);
}

}  // namespace rdmc::sim_app
