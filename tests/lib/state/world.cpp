#include "tests/lib/state/world.hpp"

namespace rdmc::state::testing {

Process& World::add() {
  const MemberId id{processes.size() + 1};
  processes.push_back(std::make_unique<Process>(*this, id, least_));
  members_.push_back(id);
  return *processes.back();
}

std::size_t World::complete() {
  return static_cast<std::size_t>(std::ranges::count_if(group_, [&](MemberId id) {
    const Process& one = (*this)[id];
    return one.is_alive && one.status.is_complete;
  }));
}

bool World::has_another(MemberId than) {
  return std::ranges::any_of(alive_in_group(), [&](MemberId id) { return id != than && was_member(id); });
}

bool World::is_lost() {
  return std::ranges::none_of(group_, [&](MemberId id) {
    Process& one = (*this)[id];
    return one.is_alive && (one.status.is_complete || one.load);
  });
}

void World::kill(MemberId id) {
  (*this)[id].is_alive = false;
  ++deaths;
}

void World::leave_out(MemberId id) {
  ++left_out;
  auto members = alive_in_group();
  std::erase(members, id);
  if (!members.empty()) begin_epoch(members);
}

void World::join() {
  const MemberId id = add().member;
  // A process that opens the state late may be an old member of the view.
  if (chance(2)) {
    members_.pop_back();
    members_.insert(members_.begin() + static_cast<std::ptrdiff_t>(below(members_.size() + 1)), id);
  }
  install();
}

void World::repair() {
  std::erase_if(members_, [&](MemberId id) { return !(*this)[id].is_alive || removed_.contains(id); });
  if (views_.back().members.size() != members_.size()) install();
  std::vector<MemberId> members;
  for (const MemberId id : members_)
    if (!was_left_out_.contains(id)) members.push_back(id);
  if ((members != group_ || wish_) && !members.empty()) begin_epoch(members);
}

void World::begin_anew() {
  Process& main = (*this)[root_];
  if (!main.is_alive || main.has_ended || !main.status.is_lost || !main.core.begin_anew()) return;
  main.begun_anew = ++begun_anew;
  main.load.reset();
  main.has_begun = true;
  main.state.clear();
  answered.clear();
  go_on(main);
}

void World::submit(MemberId id) {
  Process& one = (*this)[id];
  const std::string text = std::to_string(value_of(id)) + ":" + std::to_string(one.submitted + 1);
  Bytes bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  bytes.resize(chance(20) ? 40'000 : bytes.size(), std::byte{' '});
  const auto number = one.core.submit(bytes);
  if (number) BOOST_REQUIRE_EQUAL(*number, ++one.submitted);
  go_on(one);
}

void World::step() {
  if (processes.empty()) return;
  Process& one = *processes[below(processes.size())];
  if (!one.is_alive) return;
  switch (below(8)) {
    case 0: return open(one);
    case 1: return deliver(one);
    case 2: return tell_stable(one);
    case 3: return deliver_note(one);
    case 4: return follow_view(one);
    case 5: return end_lease(one);
    case 6: return transfer(one);
    default: return take(one);
  }
}

std::string World::describe() {
  std::string text = ": epoch " + std::to_string(epoch_) + ", root " + std::to_string(value_of(root_)) +
                     ", " + std::to_string(log_.size()) + " messages";
  for (const MemberId id : group_) {
    const Process& one = (*this)[id];
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

void World::settle() {
  repair();
  while (alive_in_group().size() < least_) {
    join();
    repair();
  }
  run_until([&, quiet = 0]() mutable {
    if (++quiet % 500 != 0) return false;
    repair();
    if (is_lost()) return true;
    return std::ranges::all_of(group_, [&](MemberId id) {
      Process& one = (*this)[id];
      return !one.is_alive || one.has_ended ||
             (one.changes.empty() && one.unanswered.empty() && !one.load && one.status.is_complete &&
              one.status.complete_replicas == group_.size() && one.epoch == epoch_ &&
              one.delivered == log_.size() && one.stable == log_.size() && notes_[id].empty() &&
              applied_of(one, id) == one.submitted);
    });
  });
}

std::vector<MemberId> World::alive_in_view() {
  std::vector<MemberId> alive;
  for (const MemberId id : members_)
    if ((*this)[id].is_alive) alive.push_back(id);
  return alive;
}

std::vector<MemberId> World::alive_in_group() {
  std::vector<MemberId> alive;
  for (const MemberId id : group_)
    if ((*this)[id].is_alive && !(*this)[id].has_ended) alive.push_back(id);
  return alive;
}

bool World::open_everywhere() {
  return std::ranges::all_of(group_, [&](MemberId id) { return (*this)[id].epoch == epoch_; });
}

void World::go_on(Process& one) {
  now_ += static_cast<std::int64_t>(below(1000));
  // The clocks of the processes differ, and go back now and then.
  one.core.order(now_ + static_cast<std::int64_t>(below(5000)), random_());
  std::vector<Change> news;
  one.core.take_changes(news);
  for (Change& next : news) {
    if (std::holds_alternative<StableEvents>(next) && takes_part(one)) {
      check_nobody_else_answers(one);
      // A member that dies stays in the group for a while.
      const auto has_state = [&](MemberId id) { return !(*this)[id].load && (*this)[id].has_begun; };
      BOOST_REQUIRE(std::ranges::count_if(group_, has_state) >= static_cast<std::ptrdiff_t>(least_));
    }
    one.changes.push_back(std::move(next));
  }
}

void World::install() {
  View view{.epoch = Epoch{views_.size() + 1}, .members = {}};
  for (const MemberId id : members_)
    view.members.push_back({.id = id, .name = {}, .address = {}, .since = {}});
  views_.push_back(std::move(view));
}

void World::begin_epoch(std::vector<MemberId> members) {
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
    Process& one = (*this)[id];
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

void World::receive(Process& one) {
  one.core.on_message(one.delivered, log_[one.delivered]);
  ++one.delivered;
  go_on(one);
}

void World::open(Process& one) {
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

void World::end_part(Process& one) {
  if (!was_left_out_.contains(one.member) || one.has_ended || !chance(20)) return;
  one.core.end({Errc::peer_failed, "left out"});
  go_on(one);
}

void World::deliver(Process& one) {
  if (takes_part(one) && one.member != root_ && one.delivered < log_.size()) receive(one);
}

void World::tell_stable(Process& one) {
  if (!takes_part(one)) return;
  std::uint64_t stable = log_.size();
  for (const MemberId id : group_) stable = std::min(stable, std::max((*this)[id].delivered, next_));
  if (stable <= one.stable) return;
  one.stable += 1 + below(stable - one.stable);
  one.core.on_stable(one.stable);
  go_on(one);
}

void World::deliver_note(Process& one) {
  auto& notes = notes_[one.member];
  Process& root = (*this)[root_];
  if (notes.empty() || !root.is_alive || root.epoch != epoch_) return;
  const Bytes note = notes.front();
  notes.pop_front();
  root.core.on_note(one.member, note);
  go_on(root);
}

void World::follow_view(Process& one) {
  if (one.view == views_.size()) return;
  const View& next = views_[one.view];
  ++one.view;
  if (next.find(one.member) == nullptr) return;
  one.core.on_view(next);
  go_on(one);
}

void World::end_lease(Process& one) {
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

void World::transfer(Process& one) {
  if (!one.load || one.has_ended) return;
  const auto found = snapshots_.find(one.load->serial);
  const bool has_donor = is_in_group(one.load->from) && (*this)[one.load->from].is_alive;
  if (chance(4) && (found == snapshots_.end() ? !has_donor : chance(4))) {
    ++failed_transfers;
    const auto serial = one.load->serial;
    one.load.reset();
    one.core.load_failed(serial);
  } else if (found != snapshots_.end()) {
    const auto head = decode_snapshot_head(*found->second.head);
    BOOST_REQUIRE(head.has_value());
    const auto serial = one.load->serial;
    one.load.reset();
    if (one.core.loaded(serial, *head)) {
      ++transfers;
      one.has_begun = true;
      one.state = found->second.state;
      one.begun_anew = found->second.begun_anew;
    }
  }
  go_on(one);
}

void World::take(Process& one) {
  if (one.changes.empty()) return;
  Change next = std::move(one.changes.front());
  one.changes.pop_front();
  std::visit([&](auto& change) { handle(one, change); }, next);
}

void World::handle(Process& one, OrderedEvent& event) {
  std::string text(reinterpret_cast<const char*>(event.bytes.data()), event.bytes.size());
  text.erase(text.find_last_not_of(' ') + 1);
  const Applied applied{event.position, event.time, event.random, text};
  if (!one.state.empty()) {
    BOOST_REQUIRE(one.state.back().position < event.position);
    BOOST_REQUIRE(one.state.back().time <= event.time);
  }
  one.state.push_back(applied);
  const bool is_own = text.starts_with(std::to_string(value_of(one.member)) + ":");
  BOOST_REQUIRE_EQUAL(is_own, event.own_number != 0);
  if (is_own) one.unanswered[text] = event.position;
  if (was_left_out_.contains(one.member)) return;  // What it puts into the order now is void.
  const auto [known, is_new] = order_.try_emplace(event.position, applied);
  // An event that only processes have applied which are gone may be replaced.
  if (!is_new && !(known->second == applied)) {
    for (const auto& other : processes)
      if (other->is_alive && !other->has_ended && takes_part(*other) && other->status.is_complete)
        for (const Applied& theirs : other->state)
          BOOST_REQUIRE(theirs.position != event.position || theirs == applied);
    BOOST_REQUIRE_MESSAGE(!answered.contains(known->second.text) || known->second.text == applied.text,
                          "an answered event was replaced");
    known->second = applied;
  }
}

void World::handle(Process& one, const StableEvents& stable) {
  std::erase_if(one.unanswered, [&](const auto& event) {
    if (event.second < stable.position && one.begun_anew == begun_anew) answered.insert(event.first);
    return event.second < stable.position;
  });
}

void World::check_nobody_else_answers(const Process& one) {
  for (const auto& other : processes) {
    if (is_in_group(other->member) || !other->is_alive || other->has_ended) continue;
    const bool answers =
        other->status.is_main && other->core.may_commit() && !ended_leases_.contains(other->member);
    BOOST_REQUIRE_MESSAGE(!answers, "member " << value_of(other->member) << " still answers while "
                                              << value_of(one.member) << " goes on");
  }
}

void World::handle(Process& one, const Load& load) {
  one.state.clear();
  one.load = load;
}

void World::handle(Process& one, const Fault& fault) {
  BOOST_REQUIRE_MESSAGE(fault.cause.code == Errc::peer_failed, fault.cause.what);
  one.has_ended = true;
}

}  // namespace rdmc::state::testing
