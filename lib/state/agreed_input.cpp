#include "lib/state/agreed_input.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "lib/state/agreed_random.hpp"

namespace rdmc::state {
namespace {

/// Identifies a transfer. Two orders at the same position differ in it, if one of them was lost with its
/// epoch.
std::uint32_t group_of(std::uint64_t position, const TransferOrder& order) {
  const auto replicas =
      random_of(static_cast<std::uint64_t>(order.from), static_cast<std::uint64_t>(order.to));
  return static_cast<std::uint32_t>(random_of(replicas, position));
}

}  // namespace

// -- The application --

Result<std::uint64_t> AgreedInput::submit(std::span<const std::byte> bytes) {
  if (has_failed_) return rdmc::fail(Errc::cancelled, "this replica does not take part any more");
  if (bytes.size() > kMostEventBytes)
    return rdmc::fail(Errc::invalid_argument,
                      "an event of more than " + std::to_string(kMostEventBytes) + " bytes");
  if (!is_complete_) return rdmc::fail(Errc::would_block, "this replica does not have the state yet");
  if (own_.size() >= kMostWaitingEvents || own_bytes_ + bytes.size() > kMostWaitingBytes)
    return rdmc::fail(Errc::would_block, "too many events wait");
  const auto& event = own_.emplace_back(
      Waiting{config_.id, ++last_number_, std::make_shared<const Bytes>(bytes.begin(), bytes.end())});
  own_bytes_ += bytes.size();
  if (is_main()) queue_.push_back(event);
  return event.number;
}

void AgreedInput::order(std::int64_t now, std::uint64_t seed) {
  if (has_failed_ || !group_) return;
  if (!is_main()) {
    forward();
  } else if (prepare_epoch()) {
    advance_durable();
    for (std::uint64_t i = 0; send_batch(now, random_of(seed, i)); ++i) {
    }
  }
  if (has_failed_) return;
  check_departed();
  tell_status();
  commit();
}

bool AgreedInput::may_commit() const {
  return !has_failed_ && is_complete_ && listed_ && outlet_.is_open(group_->epoch) && stable_ >= *listed_ &&
         departed_.empty() && stored() >= config_.least_replicas;
}

void AgreedInput::commit() {
  const std::uint64_t safe = config_.awaits_disk ? std::min(stable_, durable_) : stable_;
  if (!may_commit() || safe <= committed_) return;
  committed_ = safe;
  changes_.push_back(StableEvents{committed_});
}

void AgreedInput::tell_status() {
  const ReplicaStatus now{.is_main = is_main(),
                          .is_complete = is_complete_,
                          .is_lost = is_lost_,
                          .complete_replicas = static_cast<std::uint32_t>(complete()),
                          .stored_replicas = static_cast<std::uint32_t>(stored()),
                          .awaits_earlier_leases = is_beginning_,
                          .main = group_->root};
  if (now == told_) return;
  told_ = now;
  changes_.push_back(now);
}

void AgreedInput::fail(Error cause) {
  if (std::exchange(has_failed_, true)) return;
  changes_.push_back(Fault{std::move(cause)});
}

std::size_t AgreedInput::complete() const {
  return static_cast<std::size_t>(std::ranges::count_if(replicas_, &Replica::is_complete));
}

std::size_t AgreedInput::stored() const {
  return static_cast<std::size_t>(std::ranges::count_if(replicas_, &Replica::is_stored));
}

// -- All replicas --

Hello AgreedInput::own_hello() const {
  return {.id = config_.id,
          .is_complete = is_complete_,
          .is_stored = is_stored(),
          .loads_from = loading_ ? loading_->from : ReplicaId{},
          .stored = is_complete_ ? StoredState{} : stored_,
          .persisted = is_complete_ ? persisted_place() : 0};
}

void AgreedInput::tell_hello() {
  has_said_hello_ = is_main();
  if (is_main()) take_hello(config_.member, own_hello());
}

/// Tells the main what it does not know yet. If that is not possible now, it is tried again in the next call,
/// or in the next epoch. A note for the main of this epoch must not reach the main of the next one.
void AgreedInput::forward() {
  if (!outlet_.is_open(group_->epoch)) return;
  if (has_said_hello_ && told_stored_ != is_stored()) has_said_hello_ = false;
  if (!has_said_hello_ && !outlet_.tell_main(encode(own_hello()))) return;
  if (!std::exchange(has_said_hello_, true)) told_persisted_ = own_hello().persisted;
  told_stored_ = is_stored();
  if (config_.awaits_disk && is_complete_ && persisted_place() > told_persisted_) {
    if (!outlet_.tell_main(encode(Persisted{persisted_place()}))) return;
    told_persisted_ = persisted_place();
  }
  while (forwarded_ < own_.size()) {
    const Waiting& next = own_[forwarded_];
    if (forwarded_ > 0 && forwarded_bytes_ + next.bytes->size() > kForwardWindow) return;
    if (!outlet_.tell_main(encode(Forward{next.number, *next.bytes}))) return;
    ++forwarded_;
    forwarded_bytes_ += next.bytes->size();
  }
}

void AgreedInput::on_continued(const GroupView& group) {
  if (has_failed_) return;
  // The replicas that begin the group with its first message have the whole state: an empty one. If there are
  // stored states, the main looks at them first.
  if (!group_) is_complete_ = group.next == 0 && !config_.stored;
  group_ = group;
  hellos_.clear();
  has_list_ = false;
  listed_.reset();
  handed_to_.reset();
  is_lost_ = false;
  decisions_.clear();
  queue_.clear();
  forwarded_ = forwarded_bytes_ = 0;
  advance_stable(group.next);
  tell_hello();
  if (is_main()) queue_.assign(own_.begin(), own_.end());
}

void AgreedInput::on_message(std::uint64_t number, std::shared_ptr<const Bytes> message) {
  if (has_failed_) return;
  take(message);
  if (is_complete_ || loading_) ends_.emplace_back(number, position_);
}

void AgreedInput::on_stable(std::uint64_t count) {
  if (!has_failed_) advance_stable(count);
}

void AgreedInput::advance_stable(std::uint64_t count) {
  for (; !ends_.empty() && ends_.front().first < count; ends_.pop_front()) stable_ = ends_.front().second;
}

/// If the main has begun the state anew, this replica does not use what it has or gets.
bool AgreedInput::fits(const Batch& batch) {
  if ((!is_complete_ && !loading_) || batch.position == position_) return true;
  const bool is_anew = std::max(batch.position, position_) - std::min(batch.position, position_) > kFar;
  if (!is_anew)
    fail({Errc::protocol_error, "the main has left out a part of the order"});
  else if (is_complete_)
    fail({Errc::peer_failed, "the others have begun the state anew, without what this replica has"});
  else
    give_up_loading();
  return is_anew && !is_complete_;
}

void AgreedInput::take(const std::shared_ptr<const Bytes>& message) {
  auto batch = decode_batch(*message);
  if (!batch) return fail(batch.error());
  if (!fits(*batch)) return;
  durable_ = std::max(durable_, batch->durable);
  Held next{.position = batch->position, .time = batch->time, .seed = batch->seed, .keeper = message};
  for (Entry& entry : batch->entries) {
    next.entry = std::move(entry);
    const auto* const order = std::get_if<TransferOrder>(&next.entry);
    if (order != nullptr && order->to == config_.id && !is_complete_) {
      drop_loading();
      loading_ = Loading{.serial = next.position, .from = order->from};
      // What was stable in an earlier state says nothing about this one.
      ends_.clear();
      stable_ = 0;
      stored_ = {};
      app_persisted_ = 0;
      const auto donor = std::ranges::find(replicas_, order->from, &Replica::id);
      changes_.push_back(Load{donor == replicas_.end() ? MemberId{} : donor->member, next.position,
                              group_of(next.position, *order)});
    } else if (loading_) {
      const auto* const event = std::get_if<Event>(&next.entry);
      loading_->held_bytes += sizeof next + (event == nullptr ? 0 : event->bytes.size());
      loading_->held.push_back(next);
    } else if (is_complete_) {
      apply(next);
    } else if (const auto* const list = std::get_if<ReplicaList>(&next.entry)) {
      // The state begins from stored ones, and this replica has stored the same as the main.
      const auto own = std::ranges::find(list->replicas, config_.id, &Replica::id);
      is_complete_ = told_stored_ = own != list->replicas.end() && own->is_complete;
      if (is_complete_) depart_all_others();
      // The main of a later epoch may have got a Hello that says otherwise.
      if (is_complete_ && list->epoch != group_->epoch) tell_hello();
      apply(next);
    }
    position_ = ++next.position;
    next.seed = random_of(next.seed, 0);
  }
}

void AgreedInput::apply(const Held& one) {
  time_ = std::max(time_, one.time);
  std::visit([&](const auto& entry) { apply(one, entry); }, one.entry);
}

void AgreedInput::apply(const Held& one, const Event& event) {
  if (event.from == config_.id)
    for (; !own_.empty() && own_.front().number <= event.number; own_.pop_front()) {
      own_bytes_ -= own_.front().bytes->size();
      if (forwarded_ == 0) continue;
      --forwarded_;
      forwarded_bytes_ -= own_.front().bytes->size();
    }
  auto& last = last_[event.from];
  if (event.number <= last) return;
  last = event.number;
  event_end_ = one.position + 1;
  changes_.push_back(OrderedEvent{.position = one.position,
                                  .epoch = epoch_,
                                  .own_number = event.from == config_.id ? event.number : 0,
                                  .time = time_,
                                  .random = one.seed,
                                  .bytes = event.bytes,
                                  .keeper = one.keeper});
}

void AgreedInput::apply(const Held& one, const ReplicaList& list) {
  epoch_ = list.epoch;
  const auto before = std::exchange(replicas_, list.replicas);
  for (const Replica& replica : replicas_) departed_.erase(replica.member);
  for (const Replica& old : before)
    if (old.is_complete && std::ranges::find(replicas_, old.member, &Replica::member) == replicas_.end())
      depart(old.member);
  std::erase_if(last_, [&](const auto& known) {
    return std::ranges::find(replicas_, known.first, &Replica::id) == replicas_.end();
  });
  std::erase_if(saves_, [&](const auto& save) {
    const auto to = std::ranges::find(replicas_, save.second, &Replica::id);
    const bool is_over = to == replicas_.end() || to->is_complete;
    if (is_over) changes_.push_back(SaveOver{save.first});
    return is_over;
  });
  if (group_ && list.epoch == group_->epoch) listed_ = one.position + 1;
}

void AgreedInput::apply(const Held& one, const TransferOrder& order) {
  if (order.from != config_.id) return;
  const auto to = std::ranges::find(replicas_, order.to, &Replica::id);
  if (to == replicas_.end()) return;
  std::erase_if(saves_, [&](const auto& save) {
    if (save.second == order.to) changes_.push_back(SaveOver{save.first});
    return save.second == order.to;
  });
  saves_[one.position] = order.to;
  SnapshotHead head{.position = one.position + 1,
                    .epoch = epoch_,
                    .time = time_,
                    .replicas = replicas_,
                    .last = last_,
                    .departed = {}};
  for (const auto& [member, gone] : departed_) head.departed.push_back(member);
  changes_.push_back(
      Save{one.position, group_of(one.position, order), std::make_shared<const Bytes>(encode(head))});
}

}  // namespace rdmc::state
