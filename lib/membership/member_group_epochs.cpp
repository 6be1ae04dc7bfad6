// The part of a group on the control loop: the connections of its node to those of the other members, the
// epochs that the coordinator begins, and the end.
#include <algorithm>
#include <new>

#include "dataplane/base/no_memory.hpp"
#include "lib/group/node_state.hpp"
#include "lib/membership/member_group.hpp"

namespace rdmc {

using namespace member_groups;

Result<void> MemberGroup::Impl::open(Groups& groups) {
  state_.group = setup_.number;
  state_.life = groups.next_number();
  state_.first_members = setup_.options.first_members;
  const GroupOptions& options = setup_.options.group;
  state_.options = {.block_bytes = options.block_bytes == 0 ? kUsualBlockBytes : options.block_bytes,
                    .small_bytes = options.small_bytes,
                    .algorithm = options.algorithm ? static_cast<std::uint32_t>(*options.algorithm) + 1 : 0};
  groups_ = &groups;
  auto added = groups.add(setup_.number, shared_from_this());
  if (!added) groups_ = nullptr;
  return added;
}

void MemberGroup::Impl::on_view(const View& view) {
  std::vector<MemberId> peers = state_.connected;
  for (const auto& [member, serial] : offered_) peers.push_back(member);
  for (const MemberId member : peers)
    if (view.find(member) == nullptr) forget_connection(member);
  if (setup_.callbacks.installed) setup_.callbacks.installed(view);
  if (!setup_.options.root || view.members.empty()) return;
  state_.wish = setup_.options.root(view);
  state_.wish_stands = true;
}

bool MemberGroup::Impl::is_younger_than(MemberId member) const {
  const auto& members = groups_->view().members;
  const auto at = [&](MemberId id) { return std::ranges::find(members, id, &Member::id); };
  return at(member) < at(setup_.self);
}

void MemberGroup::Impl::on_leases_over(Epoch epoch) {
  if (setup_.callbacks.earlier_leases_over) setup_.callbacks.earlier_leases_over(epoch);
}

void MemberGroup::Impl::on_channel(MemberId member) {
  if (std::ranges::find(state_.connected, member) == state_.connected.end()) connect_with(member);
}

/// Two members whose ids have the same low 32 bits cannot be in one group. The member that came first stays.
bool MemberGroup::Impl::is_taken(NodeId node, MemberId by_another_than) const {
  const auto has_it = [&](MemberId member) { return member != by_another_than && node_of(member) == node; };
  return has_it(setup_.self) || std::ranges::any_of(state_.connected, has_it) ||
         std::ranges::any_of(state_.participants, has_it);
}

/// Of two members, the older one offers. The younger one, which has dialed the older one, asks for an offer.
/// Each offer is for a new queue pair, because the other member may have used the queue pair of an earlier
/// offer already.
void MemberGroup::Impl::connect_with(MemberId member) {
  if (is_taken(node_of(member), member)) return;
  if (is_younger_than(member)) return groups_->send(member, NodeWanted{setup_.number});
  forget_connection(member);
  auto blob = node_->offer(node_of(member));
  if (!blob) return give_up(blob.error());
  const std::uint64_t serial = offered_[member] = groups_->next_number();
  groups_->channels().offer(member, setup_.number, std::move(*blob),
                            [weak = weak_from_this(), member, serial](const Bytes& theirs) {
                              if (const auto self = weak.lock()) self->on_answer(member, serial, theirs);
                            });
}

/// Called when that member offers a connection. If this node still has a connection to that member, that
/// member has lost this older connection.
void MemberGroup::Impl::on_offer(MemberId from, peer::Request offer) {
  if (is_taken(node_of(from), from)) return;
  forget_connection(from);
  auto blob = node_->offer(node_of(from));
  if (!blob) return give_up(blob.error());
  // If the blob is invalid, the other member is at fault. That member is not connected, and stays out of the
  // group.
  if (!node_->connect(node_of(from), offer.offer().blob)) return;
  if (auto channel = offer.accept({{}, std::move(*blob)})) {
    channel->close();
    set_connected(from);
  }
}

/// Only the answer to the newest offer belongs to the node's present queue pair.
void MemberGroup::Impl::on_answer(MemberId from, std::uint64_t serial, const Bytes& blob) {
  const auto offered = offered_.find(from);
  if (groups_ == nullptr || offered == offered_.end() || offered->second != serial) return;
  offered_.erase(offered);
  if (node_->connect(node_of(from), blob)) set_connected(from);
}

/// Called when a member asks for an offer. If that member is not in the installed view yet, it gets the offer
/// when a view with it is installed.
void MemberGroup::Impl::on_wanted(MemberId from) {
  if (groups_->view().find(from) != nullptr && !is_younger_than(from)) connect_with(from);
}

void MemberGroup::Impl::set_connected(MemberId member) {
  state_.connected.reserve(state_.connected.size() + 1);
  {
    const std::lock_guard lock(mutex_);
    connected_.push_back(member);
  }
  state_.connected.push_back(member);
  groups_->tell();
}

void MemberGroup::Impl::set_unconnected(MemberId member) {
  std::erase(state_.connected, member);
  const std::lock_guard lock(mutex_);
  std::erase(connected_, member);
}

void MemberGroup::Impl::forget_connection(MemberId member) {
  set_unconnected(member);
  offered_.erase(member);
  node_->disconnect(node_of(member));
}

void MemberGroup::Impl::check_connections() {
  const auto connected = state_.connected;
  for (const MemberId member : connected) {
    if (node_->is_connected(node_of(member))) continue;
    set_unconnected(member);
    connect_with(member);
    if (groups_ == nullptr) return;
  }
}

void MemberGroup::Impl::begin(const NewEpoch& epoch) {
  if (epoch.epoch <= state_.epoch) return;
  std::set<NodeId> nodes;
  for (const MemberId member : epoch.participants)
    if (!nodes.insert(node_of(member)).second)
      return give_up({Errc::already_exists, "two members of the group have ids that end alike"});
  {
    const std::lock_guard lock(mutex_);
    epochs_[epoch.epoch] = epoch;
  }
  state_.epoch = begun_ = epoch.epoch;
  state_.root = epoch.root;
  state_.participants = epoch.participants;
  state_.settled_wishes = epoch.settled_wishes;
  state_.stage = Stage::going;
  state_.is_drained = false;
  if (!state_.wish_stands && state_.wish) {
    const auto& participants = epoch.participants;
    const auto self = std::ranges::find(participants, setup_.self) - participants.begin();
    const bool is_out = std::ranges::find(participants, *state_.wish) == participants.end();
    if (state_.wish_number <= epoch.settled_wishes[static_cast<std::size_t>(self)] || is_out)
      state_.wish.reset();
  }
  if (auto gone_on = go_on(epoch); !gone_on) {
    if (gone_on.error().code != Errc::peer_failed) return give_up(gone_on.error());
    set_failed();
  }
  if (groups_ != nullptr) groups_->tell();
}

Result<void> MemberGroup::Impl::go_on(const NewEpoch& epoch) {
  std::vector<NodeId> nodes;
  for (const MemberId member : epoch.participants) nodes.push_back(node_of(member));
  const NodeId root = node_of(epoch.root);
  if (is_made_) return node_->continue_group(setup_.number, epoch.epoch, std::move(nodes), root);
  GroupOptions options = setup_.options.group;
  options.epoch = epoch.epoch;
  options.can_continue = options.joins = true;
  auto made = node_->create_group(setup_.number, std::move(nodes), root, options, callbacks());
  is_made_ = made.has_value();
  return made;
}

void MemberGroup::Impl::on_continued(std::uint64_t epoch) {
  if (epoch != state_.epoch) return;
  state_.stage = Stage::open;
  check_closing();
  groups_->tell();
}

/// Called when the node's group has failed. If this member's own application or host cannot go on, this
/// member would fail again and again. So its part ends, and the other members go on without it.
void MemberGroup::Impl::on_failed(std::uint64_t epoch, std::optional<NodeId> node, const Error& error) {
  const bool is_ours =
      node == node_of(setup_.self) &&
      (error.code == Errc::invalid_argument || error.code == Errc::resource_limit ||
       (error.code == Errc::timed_out && setup_.options.group.receive_timeout != Duration{}));
  if (is_ours) return give_up(error);
  if (epoch != state_.epoch) return;
  set_failed();
  if (groups_ != nullptr) groups_->tell();
}

void MemberGroup::Impl::set_failed() {
  state_.stage = Stage::failed;
  check_connections();
}

void MemberGroup::Impl::check_closing() {
  if (!is_closing_ || state_.stage != Stage::open) return;
  if (is_root_ && stable_ < sent_) return;
  state_.stage = Stage::closing;
  groups_->tell();
}

/// Without draining, a former root would hand over all its queued messages at once, and every member would
/// need memory for them at that moment. So the root first sends what is queued.
void MemberGroup::Impl::drain(std::uint64_t epoch) {
  if (epoch != state_.epoch || state_.is_drained) return;
  is_draining_ = true;
  check_drained();
}

void MemberGroup::Impl::check_drained() {
  const bool is_open = state_.stage == Stage::open || state_.stage == Stage::closing;
  if (!is_draining_ || !is_open || state_.is_drained || stable_ < sent_) return;
  state_.is_drained = true;
  groups_->tell();
}

void MemberGroup::Impl::refuse(const Refusal& refusal) {
  if (refusal.life != state_.life) return;
  if (refusal.is_left_out)
    give_up(
        {Errc::peer_failed, "the others have gone on without this member, which one of them did not reach"});
  else
    give_up({Errc::invalid_argument, "the other members have made this group with other options"});
}

/// Called when all participants have called close(). All of them have all messages, so nothing that happens
/// to other members now is a failure.
void MemberGroup::Impl::all_close(std::uint64_t epoch) {
  if (epoch != state_.epoch || state_.stage != Stage::closing) return;
  is_over_ = true;
  Groups& groups = *std::exchange(groups_, nullptr);
  const auto done = [this](const Result<void>&) {
    if (const auto closed = take_closed()) closed({});
  };
  const auto kept = groups.take(setup_.number);
  if (!node_->destroy_group(setup_.number, done)) done({});
  groups.tell();
}

/// The upcall in end() may make the group again. tell() comes last, because it may need memory.
void MemberGroup::Impl::give_up(const Error& cause) {
  Groups& groups = *groups_;
  const auto kept = groups.take(setup_.number);
  end(cause);
  groups.tell();
}

/// If the node has the group, the last upcall runs on the fabric thread, after all other upcalls. Nothing
/// here needs memory.
void MemberGroup::Impl::end(const Error& cause) {
  if (groups_ == nullptr) return;
  groups_ = nullptr;
  is_over_ = true;
  cause_ = copy_of(cause);
  NodeTurns::disconnect_all(*node_);
  bool is_told_later = false;
  try {
    const auto tell = [this](const Result<void>&) { tell_end(); };
    is_told_later = is_made_ && node_->destroy_group(setup_.number, tell);
  } catch (const std::bad_alloc&) {  // the node no longer has the group
  }
  if (!is_told_later) tell_end();
}

void MemberGroup::Impl::tell_end() {
  if (const auto closed = take_closed()) closed(std::unexpected(copy_of(cause_)));
  if (setup_.callbacks.ended) setup_.callbacks.ended(cause_);
}

}  // namespace rdmc
