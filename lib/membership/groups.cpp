#include "lib/membership/groups.hpp"

#include <algorithm>

#include "dataplane/base/clock.hpp"

namespace rdmc::member_groups {
namespace {

/// Of a group's epoch the upper bits are the epoch of the view in which it was begun.
constexpr int kEpochShift = 24;
/// The same members try again no sooner, when their epoch has failed.
constexpr Duration kBeginAgain = milliseconds(100);

}  // namespace

Groups::Groups(std::shared_ptr<peer::Peers> peers, const std::string& name)
    : peers_(std::move(peers)),
      channels_(std::make_unique<Channels>(
          peers_, name,
          Channels::Handlers{
              .opened = [this](MemberId member) { on_opened(member); },
              .said = [this](MemberId member, Message message) { on_said(member, std::move(message)); },
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
    if (view.find(former.id) == nullptr) states_.erase(former.id), offers_.erase(former.id);
  view_ = view;
  coordinated_.clear();
  epochs_begun_ = 0;
  channels_->follow(view);
  const auto all = groups_;
  for (const auto& [number, group] : all) group->on_view(view);
  tell();
  consider();
}

void Groups::end(const Error& cause) {
  is_over_ = true;
  channels_.reset();
  coordinated_.clear();
  for (const auto& [number, group] : std::exchange(groups_, {})) group->end(cause);
}

Result<void> Groups::add(GroupNumber number, const std::shared_ptr<LocalGroup>& group) {
  if (is_over_) return fail(Errc::cancelled, "the membership is over");
  if (groups_.contains(number))
    return fail(Errc::already_exists, "this member has made group " + std::to_string(value_of(number)));
  if (groups_.size() >= kMostGroups) return fail(Errc::resource_limit, "too many groups of a membership");
  LocalGroup& added = *group;
  groups_[number] = group;
  added.on_view(view_);
  for (auto& [member, offers] : offers_) {
    const auto offer = offers.extract(number);
    if (!offer.empty()) added.on_offer(member, offer.mapped());
  }
  for (const Member& member : view_.members)
    if (member.id != self_) added.on_channel(member.id);
  tell();
  return {};
}

void Groups::remove(GroupNumber number) {
  if (groups_.erase(number) > 0) tell();
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
  // Not in the middle of what a group does now.
  peers_->loop().post([weak = std::weak_ptr(alive_), this] {
    if (weak.expired() || is_over_) return;
    states_[self_] = state();
    consider();
  });
}

void Groups::on_opened(MemberId member) {
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
  const bool may_have_missed = reopened_.erase(from) > 0;
  states_[from] = std::move(state);
  if (may_have_missed && states_[from].view == view_.epoch && coordinator() == self_) {
    for (const auto& [number, one] : coordinated_)
      if (one.begun && one.begun->lives.contains(from)) send(from, one.begun->epoch);
  }
  consider();
}

void Groups::on(MemberId from, const NewEpoch& epoch) {
  LocalGroup* const group = find(epoch.group);
  if (group == nullptr || coordinator() != from || epoch.epoch >> kEpochShift != value_of(view_.epoch))
    return;
  group->begin(epoch);
}

void Groups::on(MemberId from, const AllClose& close) {
  LocalGroup* const group = find(close.group);
  if (group != nullptr && coordinator() == from) group->all_close(close.epoch);
}

void Groups::on(MemberId from, NodeOffer offer) {
  if (LocalGroup* const group = find(offer.group); group != nullptr) return group->on_offer(from, offer);
  auto& kept = offers_[from];
  if (kept.size() < kMostGroups || kept.contains(offer.group)) kept[offer.group] = std::move(offer);
}

void Groups::on(MemberId from, const NodeAnswer& answer) {
  if (LocalGroup* const group = find(answer.group); group != nullptr) group->on_answer(from, answer);
}

void Groups::on(MemberId from, const NodeWanted& wanted) {
  if (LocalGroup* const group = find(wanted.group); group != nullptr) group->on_wanted(from);
}

LocalGroup* Groups::find(GroupNumber number) const {
  const auto found = groups_.find(number);
  return found == groups_.end() ? nullptr : found->second.get();
}

/// Not before everybody has told how it stands in this view: from then on nobody takes an epoch that an
/// earlier coordinator has begun.
void Groups::consider() {
  if (is_over_ || coordinator() != self_) return;
  std::vector<MemberId> order;
  std::map<GroupNumber, GroupStates> groups;
  for (const Member& member : view_.members) {
    if (channels_->is_absent(member.id)) continue;
    const auto told = states_.find(member.id);
    if (told == states_.end() || told->second.view != view_.epoch) return;
    order.push_back(member.id);
    for (const GroupState& group : told->second.groups) groups[group.group][member.id] = group;
  }
  for (const auto& [number, states] : groups) consider(number, order, states);
}

void Groups::consider(GroupNumber number, const std::vector<MemberId>& order, const GroupStates& states) {
  Coordinated& coordinated = coordinated_[number];
  auto decision = decide(order, states, coordinated.begun);
  if (!decision) return;
  if (const auto* const close = std::get_if<AllClose>(&*decision)) {
    for (const auto& [member, state] : states) {
      if (member != self_)
        send(member, *close);
      else if (LocalGroup* const group = find(number); group != nullptr)
        group->all_close(close->epoch);
    }
    return;
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
  epoch.epoch = (value_of(view_.epoch) << kEpochShift) + ++epochs_begun_;
  Begun begun{.epoch = epoch, .lives = {}};
  for (const MemberId member : epoch.participants) begun.lives[member] = states.at(member).life;
  coordinated_[number].begun = std::move(begun);
  for (const MemberId member : epoch.participants) {
    if (member != self_)
      send(member, epoch);
    else if (LocalGroup* const group = find(number); group != nullptr)
      group->begin(epoch);
  }
}

}  // namespace rdmc::member_groups
