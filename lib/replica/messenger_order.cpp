// Receives from any source, at a rank with replicas. The replicas of the rank may match messages in different
// orders. Only one order is wrong: a message must not be matched in place of an earlier one that has caused
// it.
//
// Without replicas this cannot happen, because the cause is that the rank has received the earlier message.
// With replicas it can: replica 1 receives message a from rank s, and tells rank p, which then sends message
// b to all replicas. Replica 0 may see b before a, if a comes from another replica of s that is slower. This
// happens after a death with sdr, and at any time with mirror. (SDR-MPI does not mention it; its
// acknowledgements do not prevent it, because replica 1 does not wait for them.)
//
// So when the program learns that a receive from any source is complete, the replica sends nothing more until
// all other replicas of its rank have seen the message. Messages match in the order of their arrival, so they
// then match it before all that it causes.
#include <algorithm>
#include <utility>

#include "lib/replica/messenger.hpp"

namespace rdmc::replica {

std::optional<Sight> Messenger::sight_of(const Envelope& envelope, ProcessId from) const {
  const Rank source = rank_of(from);
  if (!is_replicated_ || source == own_rank_) return std::nullopt;
  return Sight{.channel = {.context = envelope.context, .rank = source, .tag = envelope.tag},
               .sequence = envelope.sequence + 1};
}

// The program learns of the message now. What it has sent before is not caused by the message. It must not be
// held back: two replicas could then wait for each other.
void Messenger::hold_until_seen(const Sight& sight) {
  const ReplicaSet others = protocol_->living(own_rank_) & ~set_of(protocol_->self().replica);
  if (others == 0 || has_ended(sight.channel.context)) return;
  IncomingChannel& channel = from_[from_.find_or_add(sight.channel)];
  channel.seen.resize(protocol_->layout().degree(own_rank_));
  Hold hold{.sight = sight, .after = sends_};
  for_each_replica(others, [&](std::uint32_t replica) {
    if (is_before(channel.seen[replica], sight.sequence)) hold.waits_for |= set_of(replica);
  });
  if (hold.waits_for == 0 || std::ranges::find(holds_, sight, &Hold::sight) != holds_.end()) return;
  holds_.push_back(hold);
  for_each_replica(hold.waits_for, [&](std::uint32_t replica) {
    ++counters_.questions;
    note(protocol_->process(own_rank_, replica), Question{sight});
  });
}

// Ends the holds that wait for no living replica, and sends what nothing holds back any more.
void Messenger::end_holds() {
  for (Hold& hold : holds_) hold.waits_for &= protocol_->living(own_rank_);
  std::erase_if(holds_, [](const Hold& hold) { return hold.waits_for == 0; });
  for (const ProcessId to : std::exchange(held_, {})) {
    peer(to).is_held = false;
    if (!peer(to).failure) pump(to);
  }
}

void Messenger::note(ProcessId to, const Record& notice) {
  peer(to).notices.push_back(notice);
  pump(to);
}

Result<void> Messenger::handle(ProcessId from, const Question& question) {
  Sight seen = question.sight;
  if (rank_of(from) != own_rank_ || value_of(seen.channel.rank) >= rank_failures_.size())
    return fail(Errc::protocol_error, "a question that is not for this rank");
  // A communicator that has ended here has got all its messages.
  if (!has_ended(seen.channel.context)) {
    IncomingChannel& channel = from_[from_.find_or_add(seen.channel)];
    if (is_before(channel.expected, seen.sequence)) {
      if (waiting_ == kMostEarlyChannels)
        return fail(Errc::protocol_error, "questions for too many messages that have not come yet");
      ++waiting_;
      channel.waiting.push_back({.process = from, .sequence = seen.sequence});
      return {};
    }
    seen.sequence = channel.expected;
  }
  note(from, Sighting{seen});
  return {};
}

// This process has seen one more message of the channel.
void Messenger::answer_waiting(std::uint32_t index) {
  const Sight seen{.channel = from_.key(index), .sequence = from_[index].expected};
  auto waiting = std::exchange(from_[index].waiting, {});
  waiting_ -= std::erase_if(waiting, [&](const IncomingChannel::Waiting& one) {
    if (is_before(seen.sequence, one.sequence)) return false;
    if (!peer(one.process).failure) note(one.process, Sighting{seen});
    return true;
  });
  from_[index].waiting = std::move(waiting);
}

Result<void> Messenger::handle(ProcessId from, const Sighting& sighting) {
  if (rank_of(from) != own_rank_) return fail(Errc::protocol_error, "a sighting from another rank");
  const Sight& seen = sighting.sight;
  const std::uint32_t replica = protocol_->replica(from).replica;
  if (const auto index = from_.find(seen.channel); index != kNoIndex) {
    IncomingChannel& channel = from_[index];
    channel.seen.resize(protocol_->layout().degree(own_rank_));
    if (is_before(channel.seen[replica], seen.sequence)) channel.seen[replica] = seen.sequence;
  }
  for (Hold& hold : holds_)
    if (hold.sight.channel == seen.channel && !is_before(seen.sequence, hold.sight.sequence))
      hold.waits_for &= ~set_of(replica);
  end_holds();
  return {};
}

}  // namespace rdmc::replica
