#include "lib/membership/groups.hpp"

#include <algorithm>
#include <new>
#include <ranges>

#include "dataplane/base/clock.hpp"

namespace rdmc::member_groups {
namespace {

/// The number of low bits of a group's epoch that count the epochs of one view. The upper bits are the epoch
/// of the view.
constexpr int kEpochShift = 24;
constexpr std::uint64_t kEpochMask = (std::uint64_t{1} << kEpochShift) - 1;
/// A coordinator never begins as many epochs as this in one view. So a higher number does not come from a
/// coordinator.
constexpr std::uint64_t kMostBelieved = kEpochMask / 2;
/// The least time before the same members try again after a failed epoch.
constexpr Duration kBeginAgain = milliseconds(100);
/// The time for which the groups wait for a silent member, or for two members to connect with each other.
constexpr Duration kWaitAtMost = seconds(5);

/// True if the member that reports `told` still has the part in the group with which it was included in that
/// epoch.
bool is_in_this_life(const State& told, const Begun& begun, MemberId member) {
  const auto life = begun.lives.find(member);
  return life != begun.lives.end() && std::ranges::any_of(told.groups, [&](const GroupState& group) {
           return group.group == begun.epoch.group && group.life == life->second;
         });
}

}  // namespace

Groups::Groups(std::shared_ptr<peer::Peers> peers, const std::string& name)
    : peers_(std::move(peers)),
      channels_(std::make_unique<Channels>(
          peers_, name,
          Channels::Handlers{
              .opened = [this](MemberId member) { on_opened(member); },
              .said = [this](MemberId member, Message message) { on_said(member, std::move(message)); },
              .offered =
                  [this](MemberId member, GroupNumber number, peer::Request offer) {
                    if (LocalGroup* const group = find(number); group != nullptr)
                      group->on_offer(member, std::move(offer));
                  },
              .absent =
                  [this](MemberId) {
                    tell();
                    consider();
                  }})) {}

Result<void> Groups::open(MemberId self) {
  self_ = self;
  return channels_->serve(self);
}

void Groups::install(const View& view) {
  for (const Member& former : view_.members)
    if (view.find(former.id) == nullptr) {
      states_.erase(former.id);
      wishes_.forget(former.id);
      silent_since_.erase(former.id);
    }
  view_ = view;
  coordinated_.clear();
  epochs_begun_ = 0;
  channels_->follow(view);
  const auto all = groups_;
  for (const auto& [number, group] : all) {
    group->on_view(view);
    connect(*group);
  }
  tell();
  consider();
}

void Groups::end(const Error& cause) {
  is_over_ = true;
  channels_.reset();
  coordinated_.clear();
  while (!groups_.empty()) {
    const auto group = groups_.extract(groups_.begin());
    try {
      group.mapped()->end(cause);
    } catch (const std::bad_alloc&) {
      continue;  // the group has ended nevertheless, and its functions return errors
    }
  }
}

void Groups::on_leases_over(Epoch epoch) {
  leases_over_ = epoch;
  for (const auto& [number, group] : groups_) group->on_leases_over(epoch);
}

Result<void> Groups::add(GroupNumber number, const std::shared_ptr<LocalGroup>& group) {
  if (is_over_) return fail(Errc::cancelled, "the membership is over");
  if (groups_.contains(number))
    return fail(Errc::already_exists, "this member has made group " + std::to_string(value_of(number)));
  if (groups_.size() >= kMostGroups) return fail(Errc::resource_limit, "too many groups of a membership");
  groups_[number] = group;
  group->on_view(view_);
  group->on_leases_over(leases_over_);
  connect(*group);
  tell();  // the group may have ended already; then `ended` has the reason
  return {};
}

/// Offers that other members made before this member had the view or the group were not kept. So this
/// function asks for new offers.
void Groups::connect(LocalGroup& group) {
  const GroupNumber number = group.state().group;
  for (const Member& member : view_.members)
    if (member.id != self_ && find(number) == &group) group.on_channel(member.id);
}

void Groups::remove(GroupNumber number) {
  if (groups_.erase(number) > 0) tell();
}

std::shared_ptr<LocalGroup> Groups::take(GroupNumber number) {
  auto taken = groups_.extract(number);
  return taken.empty() ? nullptr : std::move(taken.mapped());
}

std::optional<MemberId> Groups::coordinator() const {
  for (const Member& member : view_.members)
    if (!channels_->is_absent(member.id)) return member.id;
  return std::nullopt;
}

State Groups::state() const {
  State state{.view = view_.epoch, .groups = {}};
  for (const auto& [number, group] : groups_) state.groups.push_back(group->state());
  return state;
}

void Groups::tell() {
  if (is_over_) return;
  const auto to = coordinator();
  if (!to) return;
  if (*to != self_) return send(*to, state());
  // This is posted, because the calling group may be in the middle of a change.
  peers_->loop().post([weak = std::weak_ptr(alive_), this] {
    if (weak.expired() || is_over_) return;
    note(self_, state());
    consider();
  });
}

/// A process that holds the key can open channels under any number of ids. So there is a limit for the data
/// that is kept about non-members. Some of the non-members will be in the next view.
void Groups::make_room() {
  constexpr std::size_t kMostNonMembers = kMostMembers;
  const auto is_non_member = [this](MemberId id) { return view_.find(id) == nullptr; };
  const auto are_too_many = [&](auto&& ids) {
    return static_cast<std::size_t>(std::ranges::count_if(ids, is_non_member)) > kMostNonMembers;
  };
  if (are_too_many(std::views::keys(states_)))
    std::erase_if(states_, [&](const auto& entry) {
      if (is_non_member(entry.first)) wishes_.forget(entry.first);
      return is_non_member(entry.first);
    });
  if (are_too_many(reopened_)) std::erase_if(reopened_, is_non_member);
}

void Groups::on_opened(MemberId member) {
  make_room();
  reopened_.insert(member);
  if (coordinator() == member) send(member, state());
  if (view_.find(member) == nullptr) return;
  const auto all = groups_;
  for (const auto& [number, group] : all) group->on_channel(member);
}

void Groups::on_said(MemberId member, Message message) {
  std::visit([&](auto& one) { on(member, std::move(one)); }, message);
}

void Groups::on(MemberId from, State state) {
  make_room();
  const bool may_have_missed = reopened_.erase(from) > 0;
  note(from, std::move(state));
  if (may_have_missed && states_[from].view == view_.epoch && coordinator() == self_) {
    for (const auto& [number, one] : coordinated_)
      if (one.begun && is_in_this_life(states_[from], *one.begun, from)) send(from, one.begun->epoch);
  }
  consider();
}

void Groups::note(MemberId from, State state) {
  // A member that has been removed may report before it knows of its removal. Its wish does not count.
  if (view_.find(from) != nullptr || state.view > view_.epoch) wishes_.note(from, state);
  states_[from] = std::move(state);
}

void Groups::on(MemberId from, const NewEpoch& epoch) {
  LocalGroup* const group = find(epoch.group);
  const bool has_us = std::ranges::find(epoch.participants, self_) != epoch.participants.end();
  if (group == nullptr || !has_us || coordinator() != from ||
      epoch.epoch >> kEpochShift != value_of(view_.epoch))
    return;
  group->begin(epoch);
}

void Groups::on(MemberId from, const AllClose& close) {
  LocalGroup* const group = find(close.group);
  if (group != nullptr && coordinator() == from) group->all_close(close.epoch);
}

void Groups::on(MemberId from, const Drain& drain) {
  LocalGroup* const group = find(drain.group);
  if (group != nullptr && coordinator() == from) group->drain(drain.epoch);
}

void Groups::on(MemberId from, const Refusal& refusal) {
  LocalGroup* const group = find(refusal.group);
  if (group != nullptr && coordinator() == from) group->refuse(refusal);
}

void Groups::on(MemberId from, const NodeWanted& wanted) {
  if (LocalGroup* const group = find(wanted.group); group != nullptr) group->on_wanted(from);
}

LocalGroup* Groups::find(GroupNumber number) const {
  const auto found = groups_.find(number);
  return found == groups_.end() ? nullptr : found->second.get();
}

/// Waits until every member has reported in this view, or its time limit has passed. A member that has
/// reported accepts no epoch any longer that an earlier coordinator has begun.
void Groups::consider() {
  if (is_over_ || coordinator() != self_) return silent_since_.clear();
  const Time now = monotonic_now();
  Time wait_until{};
  std::vector<MemberId> order;
  std::map<GroupNumber, GroupStates> groups;
  std::map<GroupNumber, Circumstances> circumstances;
  std::vector<MemberId> silent;
  for (const Member& member : view_.members) {
    if (channels_->is_absent(member.id)) continue;
    order.push_back(member.id);
    const auto told = states_.find(member.id);
    if (told == states_.end() || told->second.view != view_.epoch) {
      silent.push_back(member.id);
      wait_until =
          std::max(wait_until, silent_since_.try_emplace(member.id, now).first->second + kWaitAtMost);
      continue;
    }
    silent_since_.erase(member.id);
    for (const GroupState& group : told->second.groups) {
      GroupState& state = groups[group.group][member.id] = group;
      if (const auto arrival = wishes_.arrival(member.id, group.group))
        circumstances[group.group].arrivals[member.id] = *arrival;
      else if (!state.wish_stands)
        state.wish.reset();
    }
  }
  if (now < wait_until) {
    silence_ = peers_->loop().after(wait_until - now, [this] { consider(); });
    return;
  }
  for (const auto& [number, states] : groups) {
    circumstances[number].silent = silent;
    consider(number, order, states, std::move(circumstances[number]));
  }
}

/// Gives the coordinator's decision to a member, which may be this member.
template <typename Order>
void Groups::give(MemberId member, const Order& order) {
  if (member == self_)
    on(self_, order);
  else
    send(member, order);
}

void Groups::refuse(GroupStates& states, GroupNumber number, const std::vector<MemberId>& refused,
                    bool is_left_out) {
  for (const MemberId member : refused) {
    give(member, Refusal{.group = number, .life = states.at(member).life, .is_left_out = is_left_out});
    states.erase(member);
  }
}

void Groups::consider(GroupNumber number, const std::vector<MemberId>& order, GroupStates states,
                      Circumstances circumstances) {
  Coordinated& coordinated = coordinated_[number];
  refuse(states, number, left_out(states, coordinated.begun), true);
  refuse(states, number, with_other_options(order, states, coordinated.begun), false);
  auto decision = decide(order, states, coordinated.begun, circumstances);
  if (decision && std::holds_alternative<Unconnected>(*decision)) {
    const Time now = monotonic_now();
    const Time until =
        *(coordinated.unconnected_since = coordinated.unconnected_since.value_or(now)) + kWaitAtMost;
    if (now < until) {
      coordinated.again = peers_->loop().after(until - now, [this] { consider(); });
      return;
    }
    circumstances.is_time_over = true;
    decision = decide(order, states, coordinated.begun, circumstances);
  }
  coordinated.unconnected_since.reset();
  if (!decision) return;
  if (const auto* const close = std::get_if<AllClose>(&*decision)) {
    for (const auto& [member, state] : states) give(member, *close);
    return;
  }
  if (const auto* const drain = std::get_if<Drain>(&*decision)) {
    const auto told = [&](const auto& state) { return state.second.epoch == drain->epoch; };
    return give(std::ranges::find_if(states, told)->second.root, *drain);
  }
  auto& epoch = std::get<NewEpoch>(*decision);
  const Time now = monotonic_now();
  const Time again = coordinated.at + kBeginAgain;
  if (coordinated.begun && coordinated.begun->epoch.participants == epoch.participants &&
      coordinated.begun->epoch.root == epoch.root && now < again) {
    coordinated.again = peers_->loop().after(again - now, [this] { consider(); });
    return;
  }
  coordinated.at = now;
  begin(number, std::move(epoch), states);
}

void Groups::begin(GroupNumber number, NewEpoch epoch, const GroupStates& states) {
  // Another member may have begun epochs in this view, before it lost its service for groups.
  for (const auto& [member, told] : states_)
    for (const GroupState& group : told.groups)
      if (const std::uint64_t begun = group.epoch & kEpochMask;
          group.epoch >> kEpochShift == value_of(view_.epoch) && begun <= kMostBelieved)
        epochs_begun_ = std::max(epochs_begun_, begun);
  epoch.epoch = (value_of(view_.epoch) << kEpochShift) + ++epochs_begun_;
  Begun begun{.epoch = epoch, .lives = {}};
  for (const MemberId member : epoch.participants) begun.lives[member] = states.at(member).life;
  coordinated_[number].begun = std::move(begun);
  for (const MemberId member : epoch.participants) give(member, epoch);
}

}  // namespace rdmc::member_groups
