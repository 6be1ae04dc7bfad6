// The end of one epoch and the beginning of the next. This file handles the messages that this member has
// kept, those that it recovers, and those that are void.
#include <algorithm>
#include <string>
#include <utility>

#include "lib/group/node_group.hpp"

namespace rdmc::group {

void NodeGroup::set_phase(Phase phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
}

void NodeGroup::failed(std::optional<Rank> member, const Error& error) {
  if (phase_ == Phase::open) {
    if (is_root_) handed_ = group().delivered() + offset();
    for (auto& partial : group().partial_messages())
      held_[partial.message + offset()].have = std::move(partial.held);
  }
  failure_ = error;
  if (next_) return;  // This member itself has left the epoch.
  // True if a member has ended this epoch because it goes on in another epoch.
  const bool was_wished = can_continue_ && error.code == Errc::cancelled;
  fail_with(was_wished ? std::nullopt : member, error);
}

/// Reports a failure to the application. If memory runs out in this function or in the upcall, this function
/// is called again.
void NodeGroup::fail_with(std::optional<Rank> member, const Error& error) {
  failure_ = error;
  GroupFailure failure{.node = member ? std::optional(members_[value_of(*member)]) : std::nullopt,
                       .error = error,
                       .delivered = is_root_ ? handed_ : delivered_,
                       .stable = stable_,
                       .partial = {}};
  for (const auto& [message, held] : held_) {
    if (is_root_ || message < delivered_ || !held.have) continue;
    const std::uint32_t block_bytes = held.block_bytes == 0 ? config_.block_bytes : held.block_bytes;
    auto& partial = failure.partial.emplace_back(message, held.bytes.size(), block_bytes);
    const auto missing = held.have->complement();
    for (const auto& range : missing.ranges()) partial.missing.emplace_back(range.begin, range.end);
  }
  if (phase_ != Phase::failed) counts_.groups_failed += 1;
  set_phase(Phase::failed);
  if (callbacks_.failed) callbacks_.failed(failure);
}

void NodeGroup::released() {
  some_changed_ = true;
}

Result<void> NodeGroup::continue_as(std::uint64_t epoch, std::vector<NodeId> survivors, NodeId root,
                                    NodeId us) {
  const auto refuse = [](const char* what) { return fail(Errc::invalid_argument, what); };
  if (done_) return fail(Errc::cancelled, "the group is being destroyed");
  if (!can_continue_) return refuse("a group that was not made to be continued");
  if (epoch <= (next_ ? next_->epoch : config_.name.epoch)) return refuse("an epoch that is not later");
  RackOf rack_of = rack_of_;
  for (auto at = survivors.begin(); at != survivors.end(); ++at) {
    const bool joins = std::ranges::find(members_, *at) == members_.end();
    if (joins && *at != us && !peers_->is_connected(PeerId{value_of(*at)}))
      return fail(Errc::peer_failed,
                  "not connected to node " + std::to_string(value_of(*at)) + ", which was no member");
    if (!rack_of_.empty() && !rack_of_.contains(*at)) {
      if (!racks_are_hosts_) return refuse("a member that joins, whose rack is not known");
      auto hosts = hosts_of(survivors, us, *peers_);
      if (!hosts) return std::unexpected(hosts.error());
      rack_of = std::move(*hosts);
    }
    if (std::find(survivors.begin(), at, *at) != at) return refuse("the same survivor twice");
  }
  const auto is_left_out = [&](NodeId member) {
    return std::ranges::find(survivors, member) == survivors.end();
  };
  const auto left_out = std::ranges::find_if(members_, is_left_out);
  auto ranking = by_rank(std::move(survivors), root, us, rack_of);
  if (!ranking) return std::unexpected(ranking.error());
  const auto rank =
      static_cast<std::uint32_t>(std::ranges::find(ranking->members, us) - ranking->members.begin());
  rack_of_ = std::move(rack_of);
  next_ = Next{epoch, std::move(*ranking), Rank{rank}};
  if (phase_ == Phase::open && left_out != members_.end())
    group().give_up_on(Rank{static_cast<std::uint32_t>(left_out - members_.begin())},
                       {Errc::peer_failed, "the group goes on without it"});
  else if (phase_ == Phase::open)
    group().give_up_on(std::nullopt, {Errc::cancelled, "the group goes on in another epoch"});
  else if (recovery_)  // The recovery ends now, so that it cannot open the present epoch later.
    recovery_->end({Errc::cancelled, "a later epoch was begun"});
  all_recovered_ = false;  // The old value is from an earlier recovery.
  set_phase(Phase::continuing);
  // Messages that were sent before this call already have numbers, so their commands are executed now.
  execute_commands(2 * kMostCommands);
  some_changed_ = true;
  return {};
}

void NodeGroup::tidy() {
  if (next_) begin_next();
  finish();
  if (std::exchange(has_more_, false)) execute_commands(kCommandsPerTurn);
}

/// The next epoch begins when the present one has ended at all members that stay. Then no member writes into
/// the messages any more. This member does not wait for members that are left out. It closes the connections
/// that it had with them before the present epoch began. Later connections stay, because such a member may
/// have returned and may be about to join.
void NodeGroup::begin_next() {
  if (recovery_) recovery_->end({Errc::cancelled, "a later epoch was begun"});
  for (const NodeId member : members_) {
    if (std::ranges::find(next_->ranking.members, member) == next_->ranking.members.end())
      peers_->disconnect(PeerId{value_of(member)}, {Errc::peer_failed, "it was left out of a group"},
                         links_made_);
  }
  if (!is_released()) return;
  const Next next = *std::exchange(next_, std::nullopt);
  members_ = next.ranking.members;
  config_.racks = next.ranking.racks;
  config_.name.epoch = next.epoch;
  config_.rank = next.rank;
  config_.members.clear();
  for (const NodeId member : members_) config_.members.push_back(PeerId{value_of(member)});
  plan_.reset();
  all_recovered_ = false;
  auto made = Recovery::create(*peers_, config_, *this);
  if (!made) return fail_with(std::nullopt, made.error());
  recovery_ = std::move(*made);
  links_made_ = peers_->links_made();
  group_.reset();
  recovery_->begin();
}

SurvivorState NodeGroup::survivor_state() {
  if (joins_) return {.members = {}, .joins = true, .messages = {}};
  // A root that becomes a receiver hands over all messages that it was to send.
  if (is_root_ && value_of(config_.rank) != 0) handed_ = next_to_send_;
  SurvivorState state{.members = {},
                      .delivered = is_root_ ? std::max(stable_, delivered_) : delivered_,
                      .first = reusable_,
                      .messages = {}};
  for (const auto& [message, held] : held_) {
    const bool is_whole = is_root_ || message < delivered_;
    if ((is_root_ && message >= handed_) || (!is_whole && !held.have)) continue;
    state.messages.resize(message - reusable_ + 1);
    const std::uint64_t blocks = relay::block_count(held.bytes.size(), config_.block_bytes);
    state.messages.back() = {.is_known = true,
                             .bytes = held.bytes.size(),
                             .held = is_whole ? relay::BlockMap::full(blocks) : *held.have};
  }
  return state;
}

/// If the application has no memory for a message now, the message is recovered into memory of this process,
/// because other members may need the message.
Result<void> NodeGroup::on_plan(const RecoveryPlan& plan) {
  plan_ = plan;
  if (joins_) return {};
  std::deque<Waiting> were_waiting;
  were_waiting.swap(waiting_);
  for (std::uint64_t message = is_root_ ? plan.end() : delivered_; message < plan.end(); ++message) {
    const std::uint64_t bytes = plan.lengths[message - plan.first];
    const auto known = held_.find(message);
    if (known != held_.end() && known->second.bytes.size() != bytes)
      return fail(Errc::protocol_error, "a message of two lengths");
    if (known != held_.end() && (known->second.stand_in.bytes().empty() || known->second.awaited)) continue;
    const bool was_asked = asked_ == message || known != held_.end() ||
                           std::ranges::find(were_waiting, message, &Waiting::message) != were_waiting.end();
    const auto place = find_buffer(message, bytes, !was_asked);
    if (phase_ != Phase::continuing) return {};  // The memory was too small.
    Held& held = held_[message];
    if (!place) waiting_.push_back({message, bytes});
    if (known != held_.end()) {
      held.awaited = place;
      continue;
    }
    held.have = relay::BlockMap(relay::block_count(bytes, config_.block_bytes));
    if (place) {
      held.bytes = place->bytes;
      held.posted = place->posted;
      continue;
    }
    auto arena = memory::Arena::make(std::max<std::uint64_t>(bytes, 1));
    if (!arena) return std::unexpected(arena.error());
    held.stand_in = std::move(*arena);
    held.bytes = held.stand_in.bytes().first(bytes);
  }
  return {};
}

std::span<std::byte> NodeGroup::bytes_of(std::uint64_t message) {
  return held_[message].bytes;
}

bool NodeGroup::has_block(std::uint64_t message, std::uint64_t block) const {
  if (is_root_ || joins_ || message < delivered_) return true;
  const auto found = held_.find(message);
  return found != held_.end() && found->second.have && found->second.have->contains(block);
}

void NodeGroup::recovered(std::uint64_t message, std::uint64_t block) {
  held_[message].have->insert(block);
}

void NodeGroup::all_recovered() {
  all_recovered_ = true;
  deliver_recovered();
}

void NodeGroup::deliver_recovered() {
  if (phase_ != Phase::continuing || !all_recovered_) return;
  while (!is_root_ && !joins_ && delivered_ < plan_->end()) {
    Held& held = held_[delivered_];
    if (!waiting_.empty() && waiting_.front().message == delivered_)
      return recovery_->set_memory_awaited(true);
    if (held.awaited) {
      std::ranges::copy(held.bytes, held.awaited->bytes.begin());
      held.bytes = held.awaited->bytes;
      held.posted = held.awaited->posted;
      held.awaited.reset();
      held.stand_in = {};
    }
    deliver(delivered_, held.bytes);
    if (phase_ != Phase::continuing) return;
  }
  recovery_->set_memory_awaited(false);
  settle();
  recovery_->finish();
  some_changed_ = true;
}

/// Handles the messages that have begun and were not recovered. A root that stays the root sends them again.
/// All other members drop them. A member must drop these messages before the other members can know that it
/// has everything. The reason is that from then on, the numbers of these messages may be used for other
/// messages. So the member never reports the dropped messages in a later recovery. It does not matter which
/// member is the root then, or whether the member has seen that this epoch is open.
void NodeGroup::settle() {
  const std::uint64_t next = plan_->end();
  const bool sends_on = is_root_ && !joins_ && value_of(config_.rank) == 0;
  while (!sends_on && !held_.empty() && held_.rbegin()->first >= next) {
    const Held& held = held_.rbegin()->second;
    const auto posted = held.awaited ? held.awaited->posted : held.posted;
    if (!posted.empty()) buffers_.push_front(posted);
    held_.erase(std::prev(held_.end()));
  }
  waiting_.clear();
  asked_.reset();
  delivered_ = completed_ = next;
  if (sends_on) return;
  next_to_send_ = next_to_submit_ = handed_ = next;
  const std::lock_guard lock(mutex_);
  next_send_ = next_to_send_;
  is_root_ = value_of(config_.rank) == 0;
}

void NodeGroup::succeeded() {
  const std::uint64_t next = plan_->end();
  set_phase(Phase::open);
  failure_.reset();
  next_to_submit_ = next;
  // A member that joins gets no earlier messages.
  if (std::exchange(joins_, false)) stable_ = reusable_ = next;
  if (stable_ != next) stable(next);
  reuse();
  submit_all();
  counts_.groups_continued += 1;
  if (callbacks_.continued) callbacks_.continued(next);
}

}  // namespace rdmc::group
