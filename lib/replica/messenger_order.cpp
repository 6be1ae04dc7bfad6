// The order of messages at a rank with replicas. The replicas of the rank may match messages in different
// orders. Only one order is wrong: a message must not be matched in place of an earlier one that has caused
// it.
//
// Without replicas this cannot happen, because the cause is that the rank has received the earlier message.
// With replicas it can: replica 1 receives message a from rank s, and tells rank p, which then sends message
// b to all replicas. Replica 0 may see b before a, if a comes from another replica of s that is slower. This
// happens with mirror and with different degrees at any time, and with sdr after a death. (SDR-MPI does not
// mention it; its acknowledgements do not prevent it, because replica 1 does not wait for them.)
//
// So when the program learns which of several messages came first (a receive from any source, wait_any, test,
// a probe), the replica sends nothing more until all other replicas of its rank have seen the message. This
// is a hold. Messages match in the order of their arrival, so the others then match it before all that it
// causes.
//
// Replicas that have received messages in different orders can wait for each other: replica 0 of rank s waits
// until replica 1 has seen z, replica 1 of rank t waits until replica 0 has seen a, and z and a are held back
// by these holds. A chase finds such a circle, and nothing else. A hold must not end only because it has
// lasted for some time: the other replica may be slow, and if a process then dies, it gets messages of
// replicas that are ahead, before the one that has caused them.
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
  if (!is_before(channel.asked, sight.sequence)) return;
  channel.asked = sight.sequence;
  if (is_seen(sight)) return;
  holds_.push_back({.sight = sight, .after = sends_});
  for_each_replica(others, [&](std::uint32_t replica) {
    if (!is_before(channel.seen[replica], sight.sequence)) return;
    ++counters_.questions;
    note(protocol_->process(own_rank_, replica), Question{sight});
  });
}

// True if all other living replicas have seen the message.
bool Messenger::is_seen(const Sight& sight) {
  const auto index = from_.find(sight.channel);
  if (index == kNoIndex || has_ended(sight.channel.context)) return true;
  const IncomingChannel& channel = from_[index];
  bool is_seen = true;
  for_each_replica(
      protocol_->living(own_rank_) & ~set_of(protocol_->self().replica), [&](std::uint32_t replica) {
        is_seen =
            is_seen && replica < channel.seen.size() && !is_before(channel.seen[replica], sight.sequence);
      });
  return is_seen;
}

// Ends the holds that wait for no living replica, and sends what nothing holds back any more. A later hold
// holds back less than the first one, so it is looked at when the first one has ended.
void Messenger::end_holds() {
  if (holds_.empty() || !is_seen(holds_.front().sight)) return;
  release_hold();
}

std::optional<std::uint64_t> Messenger::oldest_hold() const {
  return holds_.empty() ? std::nullopt : std::optional(holds_ended_);
}

// True if processes may get messages from replicas with other numbers. The order then matters at once.
bool Messenger::do_worlds_cross() const {
  const ReplicaSet own = set_of(protocol_->self().replica);
  for (std::uint32_t i = 0; i < protocol_->layout().ranks(); ++i) {
    const Rank rank{i};
    if (rank == own_rank_) continue;
    if (protocol_->living(rank) != protocol_->living(own_rank_) || protocol_->toward(rank).receivers != own)
      return true;
  }
  return false;
}

void Messenger::release_hold() {
  do {
    holds_.pop_front();
    ++holds_ended_;
  } while (!holds_.empty() && is_seen(holds_.front().sight));
  for (const ProcessId to : std::exchange(held_, {})) {
    peer(to).is_held = false;
    if (!peer(to).failure) pump(to);
  }
}

void Messenger::chase_hold() {
  if (holds_.empty() || do_worlds_cross()) return;
  chased_hold_ = holds_ended_;
  pass_chase(value_of(own_), ++chase_);
}

// Asks the replicas for which the oldest hold waits.
void Messenger::pass_chase(std::uint32_t origin, std::uint64_t number) {
  const Sight sight = holds_.front().sight;
  const auto index = from_.find(sight.channel);
  if (index == kNoIndex) return;
  const auto seen = from_[index].seen;
  for_each_replica(protocol_->living(own_rank_) & ~set_of(protocol_->self().replica),
                   [&](std::uint32_t replica) {
                     if (replica >= seen.size() || is_before(seen[replica], sight.sequence))
                       note(protocol_->process(own_rank_, replica),
                            Chase{.sight = sight, .origin = origin, .number = number});
                   });
}

// True if the last message of the sight has not left for `to`, because of the oldest hold.
bool Messenger::holds_back(ProcessId to, const Sight& sight) {
  return std::ranges::any_of(peer(to).unsent, [&](std::uint32_t transfer) {
    const Outgoing& message = outgoing_[transfers_[transfer].outgoing];
    return message.envelope.context == sight.channel.context && message.envelope.tag == sight.channel.tag &&
           message.envelope.sequence + 1 == sight.sequence && is_held(message.number);
  });
}

Result<void> Messenger::handle(ProcessId from, const Chase& chase) {
  const ChannelKey& channel = chase.sight.channel;
  if (value_of(channel.rank) >= rank_failures_.size() || chase.origin >= peers_.size())
    return fail(Errc::protocol_error, "a chase of a process that does not exist");
  if (rank_of(from) == own_rank_) {
    // This replica lacks the message. One of these replicas sends it to this one.
    const auto index = from_.find(channel);
    const std::uint32_t expected = index == kNoIndex ? 0 : from_[index].expected;
    if (channel.rank == own_rank_ || has_ended(channel.context) || !is_before(expected, chase.sight.sequence))
      return {};
    for_each_replica(protocol_->living(channel.rank),
                     [&](std::uint32_t replica) { note(protocol_->process(channel.rank, replica), chase); });
    return {};
  }
  if (channel.rank != own_rank_) return fail(Errc::protocol_error, "a chase that is not for this rank");
  if (!holds_back(from, chase.sight)) return {};
  if (chase.origin == value_of(own_)) {
    if (chase.number == chase_ && chased_hold_ == holds_ended_ && !do_worlds_cross()) release_hold();
  } else if (chases_[chase.origin] < chase.number) {  // It passes here once.
    chases_[chase.origin] = chase.number;
    pass_chase(chase.origin, chase.number);
  }
  return {};
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
      if (waiting_ == kMostEarlyChannels * rank_failures_.size())
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
  end_holds();
  return {};
}

}  // namespace rdmc::replica
