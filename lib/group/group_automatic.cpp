// A group whose root chooses for each message how it travels: what the root learns, and what a member keeps
// until it has been told.
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

/// From the root's turn that sent it to the one in which it knows that all have it, unless somebody's memory
/// took a part of that.
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

/// A destination of ours knows the message already, from another source. What it grants later replaces that.
void Group::keep_grant(Rank from, const GrantRecord& record) {
  std::erase_if(kept_grants_, [&](const KeptGrant& kept) {
    return kept.record.message < next_to_finish_ ||
           (kept.from == from && kept.record.message == record.message);
  });
  kept_grants_.push_back({from, record});
}

Result<void> Group::use_kept_grants(Message& message) {
  for (const KeptGrant& kept : kept_grants_) {
    if (kept.record.message != message.number) continue;
    ++counters_.grants_received;
    if (auto taken = message.relay.on_grant(kept.from, kept.record.grant); !taken) return taken;
  }
  std::erase_if(kept_grants_, [&](const KeptGrant& kept) { return kept.record.message == message.number; });
  return {};
}

}  // namespace rdmc::group
