// A group whose root chooses the plan of each message: what the root learns from the messages, and the grants
// that a member keeps until it learns the plan.
#include <algorithm>

#include "lib/group/group.hpp"

namespace rdmc::group {

relay::MessagePlan Group::plan_for(std::uint64_t bytes) const {
  return auto_plan_ ? auto_plan_->next(bytes).plan : usual_plan();
}

bool Group::should_wait(std::uint64_t bytes) const {
  return auto_plan_ && stable_ != next_number_ && auto_plan_->next(bytes).is_trial;
}

void Group::count_sent(std::uint64_t number, std::uint64_t bytes, const relay::MessagePlan& plan,
                       bool is_alone) {
  if (is_alone) {
    const bool is_trial = auto_plan_->next(bytes).is_trial;
    timed_ = {.message = number, .bytes = bytes, .plan = plan, .is_trial = is_trial};
  }
  auto_plan_->sent(bytes);
}

relay::MessagePlan Group::plan_of(std::uint64_t number) const {
  const auto found = std::ranges::lower_bound(messages_, number, {}, &Message::number);
  return found == messages_.end() || found->number != number ? usual_plan() : found->plan;
}

/// Measures the duration of a message: from the turn in which the root has sent the message to the turn in
/// which the root knows that all members have it. The duration is not used if a member waited for its
/// application's memory in that time.
void Group::learn(Time now) {
  if (!timed_ || stable_ <= timed_->message) return;
  const Duration took = now - timed_->begin.value_or(now);
  if (confirmation_.gathered().waited > timed_->message)
    auto_plan_->took_what_somebody_needed(timed_->bytes);
  else if (took > Duration{})
    auto_plan_->took(timed_->bytes, timed_->plan, static_cast<double>(took.ns) * 1e-9);
  timed_.reset();
}

Result<relay::MessagePlan> Group::announced_plan(const Announcement& announcement) const {
  if (announcement.plan.has_value() != config_.automatic.has_value())
    return rdmc::fail(Errc::protocol_error, "a root that chooses in a group where others do not, or not");
  if (!config_.automatic) return usual_plan();
  const relay::MessagePlan& plan = *announcement.plan;
  if (std::ranges::find(algorithms_, plan.algorithm) == algorithms_.end() ||
      config_.automatic->fixed.block_bytes.value_or(plan.block_bytes) != plan.block_bytes)
    return rdmc::fail(Errc::protocol_error, "a message that travels in a way that the group does not allow");
  return plan;
}

/// Keeps a grant for a message that is not announced to this member yet. The sender of the grant already
/// knows the message from another source. A later grant of the same sender for the same message replaces this
/// one. The sender finishes no message before it has this member's blocks of that message. So the sender
/// still works on all messages of its kept grants, and there are at most kMessagesInFlight of these. A member
/// grants memory only for messages that the root has sent. So the root keeps no grants.
Result<void> Group::keep_grant(Edge& from, const GrantRecord& record) {
  drop_grants_below(next_to_finish_);
  const auto [kept, is_new] = kept_grants_.insert_or_assign({record.message, from.rank}, record.grant);
  if (is_new && (is_root() || ++from.kept > kMessagesInFlight))
    return rdmc::fail(Errc::protocol_error, "grants for messages that nobody has begun");
  return {};
}

void Group::drop_grants_below(std::uint64_t message) {
  const auto end = kept_grants_.lower_bound({message, Rank{}});
  for (auto kept = kept_grants_.begin(); kept != end; kept = kept_grants_.erase(kept))
    --find(kept->first.second)->kept;
}

/// Executes the kept grants of a message. An error in a kept grant is the fault of the member that has sent
/// the grant. It does not matter which member has announced the message.
void Group::use_kept_grants(Message& message) {
  for (auto kept = kept_grants_.lower_bound({message.number, Rank{}});
       kept != kept_grants_.end() && kept->first.first == message.number; kept = kept_grants_.erase(kept)) {
    Edge& edge = *find(kept->first.second);
    --edge.kept;
    ++counters_.grants_received;
    if (auto taken = message.relay.on_grant(edge.rank, kept->second); !taken)
      return fail(edge.rank, taken.error());
  }
}

}  // namespace rdmc::group
