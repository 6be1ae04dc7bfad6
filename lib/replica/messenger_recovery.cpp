// Recovery: a new process takes the place of a dead replica. A living replica of the same rank, the parent,
// forks it. So the new process begins with a copy of everything that the parent has: the program, its
// requests, and this Messenger. Its links are new.
//
// The copy must lack no message. All processes learn of the recovery in the same order as of deaths, but each
// one at another time. From this time on, a process treats the new one as a living replica: messages for it
// wait, and messages that others send to it are kept until it has acknowledged them. What a process has sent
// earlier, and does not have any more, must be in the copy, or must have reached its receiver. Fences ensure
// this. The parent stops sending messages, and sends a fence to each living process. A process answers when
// it has learned of the recovery. When all have answered, the parent is forked. Then:
//
// - Every message to the rank that is not in the copy is still at each process that has sent it, because the
//   parent has handled all that was sent to it before the answers.
// - Every message of the rank that a receiver lacks is in the copy, because the receivers have handled all
//   that the parent had sent before the fences.
//
// So the new process could carry the rank alone from its first moment. Sequence numbers find messages that
// come twice. Several recoveries may happen at the same time, with any number of replicas
// (docs/decisions/0103-a-replica-is-forked-behind-fences.md).
#include <algorithm>
#include <cassert>
#include <utility>

#include "lib/replica/messenger.hpp"

namespace rdmc::replica {
namespace {

/// A number so far before `sequence` that no message which anybody asks about is before it.
constexpr std::uint32_t long_before(std::uint32_t sequence) {
  return sequence - (std::uint32_t{1} << 30);
}

}  // namespace

void Messenger::on_recovering(ProcessId process, ProcessId parent, std::uint64_t number) {
  const ReplicaId id = protocol_->replica(process);
  peer(process) = Peer{};
  protocol_->on_replaced(id);
  last_recovery_ = number;
  if (parent == own_) recoveries_.push_back({.process = process, .number = number});
  // What the dead process has sent was not sent on the new link.
  for (std::uint32_t i = 0; i < arrivals_.end(); ++i)
    if (Arrival* const arrival = arrivals_.find(i); arrival && arrival->from == process)
      arrival->owes_credit = false;
  if (id.rank == own_rank_) {
    // The new process knows what the parent knows, and not what the dead one has known.
    from_.for_each([&](const ChannelKey&, std::uint32_t, IncomingChannel& channel) {
      if (id.replica < channel.seen.size()) channel.seen[id.replica] = long_before(channel.expected);
    });
    for (const Hold& hold : holds_) note(process, Question{hold.sight});
    comparison_.on_replaced(id.replica);
    hand_over();
  } else {
    supply(id.rank, id.replica);
    acknowledge_all(id.rank);
  }
  if (parent == own_) {
    for (std::uint32_t i = 0; i < peers_.size(); ++i) {
      const ProcessId other{i};
      if (other == own_ || other == process || peer(other).failure) continue;
      recoveries_.back().missing.push_back(other);
      note(other, Fence{.number = number});
    }
  }
  const auto early = std::exchange(early_fences_, {});
  for (const EarlyFence& fence : early) {
    const auto handled = handle(fence.from, Fence{.number = fence.number});
    static_cast<void>(handled);  // It has succeeded before.
  }
}

bool Messenger::may_fork(ProcessId process) const {
  const auto found = std::ranges::find(recoveries_, process, &Recovery::process);
  if (found == recoveries_.end() || !found->missing.empty()) return false;
  // Writes that were posted before the fences have arrived. Their completions come soon.
  for (std::uint32_t i = 0; i < transfers_.end(); ++i)
    if (const Transfer* const transfer = transfers_.find(i); transfer && transfer->in_flight != 0)
      return false;
  return true;
}

void Messenger::on_forked(ProcessId process) {
  end_recovery(process);
}

// Forgets a recovery whose parent is this process. Messages may leave again.
void Messenger::end_recovery(ProcessId process) {
  const auto found = std::ranges::find(recoveries_, process, &Recovery::process);
  if (found == recoveries_.end()) return;
  recoveries_.erase(found);
  if (is_frozen()) return;
  for (std::uint32_t i = 0; i < peers_.size(); ++i)
    if (!peers_[i].failure && ProcessId{i} != own_) pump(ProcessId{i});
}

// A dead process answers no fence.
void Messenger::note_failure_in_recoveries(ProcessId dead) {
  std::erase_if(early_fences_, [&](const EarlyFence& fence) { return fence.from == dead; });
  for (Recovery& recovery : recoveries_) std::erase(recovery.missing, dead);
}

Result<void> Messenger::handle(ProcessId from, const Fence& fence) {
  if (fence.is_answer) {
    for (Recovery& recovery : recoveries_)
      if (recovery.number == fence.number) std::erase(recovery.missing, from);
  } else if (fence.number <= last_recovery_) {
    note(from, Fence{.number = fence.number, .is_answer = true});
  } else {
    if (early_fences_.size() == kMostEarlyFences)
      return fail(Errc::protocol_error, "fences for too many recoveries that are not known");
    early_fences_.push_back({.from = from, .number = fence.number});
  }
  return {};
}

// A replica of `rank` is replaced. All messages to the rank that are still here are for the new process, too.
// The receiver drops those that it has.
void Messenger::supply(Rank rank, std::uint32_t replica) {
  const ReplicaSet bit = set_of(replica);
  // The dead process may have acknowledged messages that the new one does not have.
  to_.for_each([&](const ChannelKey& key, std::uint32_t, OutgoingChannel& channel) {
    if (key.rank == rank && !channel.acknowledged.empty()) channel.acknowledged[replica] = channel.next;
  });
  for (std::uint32_t i = 0; i < outgoing_.end(); ++i) {
    Outgoing* const message = outgoing_.find(i);
    if (!message || message->to != rank) continue;
    message->awaited |= bit;
    std::uint32_t& acknowledged = channel_of(*message).acknowledged[replica];
    if (is_before(message->envelope.sequence, acknowledged)) acknowledged = message->envelope.sequence;
  }
  link_kept();
  take_over();
}

// A replica of this rank is replaced. It sends what this process has not begun to send in its place.
void Messenger::hand_over() {
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    const ReplicaId to = protocol_->replica(ProcessId{i});
    const Roles& roles = protocol_->toward(to.rank);
    if (to.rank == own_rank_ || (roles.receivers & set_of(to.replica)) != 0) continue;
    for (const std::uint32_t index : std::exchange(peers_[i].unsent, {})) {
      assert((roles.acknowledging & set_of(to.replica)) != 0);
      await_instead(index);
    }
  }
  link_kept();
}

// Gives up a transfer. Another process sends the message, and the receiver has to acknowledge it, unless it
// has done so already.
void Messenger::await_instead(std::uint32_t transfer) {
  Outgoing& message = outgoing_[transfers_[transfer].outgoing];
  const std::uint32_t replica = protocol_->replica(transfers_[transfer].to).replica;
  if (!is_before(message.envelope.sequence, channel_of(message).acknowledged[replica]))
    message.awaited |= set_of(replica);
  --message.transfers;
  transfers_.remove(transfer);
}

// Returns the channel of a message that has a number. It may have been forgotten, if its communicator has
// ended.
OutgoingChannel& Messenger::channel_of(const Outgoing& message) {
  OutgoingChannel& channel = to_[to_.find_or_add(
      {.context = message.envelope.context, .rank = message.to, .tag = message.envelope.tag})];
  if (channel.acknowledged.empty()) {
    channel.acknowledged.resize(protocol_->layout().degree(message.to), message.envelope.sequence);
    channel.next = message.envelope.sequence + 1;
  }
  return channel;
}

// Makes the lists of kept messages again. All messages that somebody has to acknowledge are in them.
void Messenger::link_kept() {
  to_.for_each([](const ChannelKey&, std::uint32_t, OutgoingChannel& channel) {
    channel.first_kept = channel.last_kept = kNoIndex;
  });
  std::vector<std::uint32_t> kept, others;
  for (std::uint32_t i = 0; i < outgoing_.end(); ++i) {
    Outgoing* const message = outgoing_.find(i);
    if (!message) continue;
    message->is_kept = message->awaited != 0;
    message->next_kept = kNoIndex;
    (message->is_kept ? kept : others).push_back(i);
  }
  std::ranges::sort(kept, {}, [&](std::uint32_t i) { return outgoing_[i].number; });
  for (const std::uint32_t i : kept) {
    const Outgoing& message = outgoing_[i];
    OutgoingChannel& channel = channel_of(message);
    (channel.first_kept == kNoIndex ? channel.first_kept : outgoing_[channel.last_kept].next_kept) = i;
    channel.last_kept = i;
  }
  for (const std::uint32_t i : others) settle(i);
}

// Returns the replicas of `source` that get an acknowledgement if any one of them has sent a message.
ReplicaSet Messenger::acknowledged_at(Rank source) const {
  ReplicaSet acknowledged = 0;
  for_each_replica(protocol_->living(source),
                   [&](std::uint32_t replica) { acknowledged |= protocol_->acknowledged(source, replica); });
  return acknowledged;
}

// Acknowledges everything that has come from `source` to all replicas of it. When another one of them begins
// to send, each of them may wait for acknowledgements that it did not need before.
void Messenger::acknowledge_all(Rank source) {
  for_each_replica(acknowledged_at(source), [&](std::uint32_t replica) {
    const ProcessId to = protocol_->process(source, replica);
    from_.for_each([&](const ChannelKey& key, std::uint32_t index, IncomingChannel& channel) {
      if (key.rank != source || (channel.due & set_of(replica)) != 0) return;
      channel.due |= set_of(replica);
      if (peer(to).due.empty()) acknowledging_.push_back(to);
      peer(to).due.push_back(index);
    });
  });
}

// The message of another process comes on a new link. Only what has arrived completely stays.
void Messenger::forget_link_of(std::uint32_t index) {
  Arrival& arrival = arrivals_[index];
  arrival.owes_credit = false;
  arrival.exposed.reset();
  arrival.missing = 0;
  if (!arrival.transfer) return;
  arrival.transfer.reset();
  arrival.lacks_sender = true;
  const auto whole =
      std::ranges::find_if(arrival.alternates, [](const Alternate& one) { return !one.transfer; });
  if (whole == arrival.alternates.end()) return arrival.alternates.clear();
  const Alternate kept = std::move(*whole);
  arrival.alternates.clear();
  adopt(index, kept);
  if (Arrival* const stored = arrivals_.find(index)) stored->owes_credit = false;
}

void Messenger::become(ProcessId process) {
  const ProcessId parent = std::exchange(own_, process);
  protocol_->become(protocol_->replica(process));
  comparison_.become(protocol_->self().replica);
  chase_ = last_recovery_ << 32;  // The dead process may have used smaller numbers.
  recoveries_.clear();
  early_fences_.clear();
  counters_ = {};
  for (std::uint32_t i = 0; i < arrivals_.end(); ++i) {
    Arrival* const arrival = arrivals_.find(i);
    if (!arrival) continue;
    if (arrival->from == parent)
      arrival->from = own_;
    else
      forget_link_of(i);
  }
  for (Peer& one : peers_) one = Peer{.failure = std::move(one.failure)};
  held_.clear();
  acknowledging_.clear();
  // What the parent has not sent completely may never arrive from it.
  for (std::uint32_t i = 0; i < transfers_.end(); ++i) {
    Transfer* const transfer = transfers_.find(i);
    if (!transfer) continue;
    if (transfer->to == parent)
      transfer->to = own_;
    else
      await_instead(i);
  }
  waiting_ = 0;
  from_.for_each([](const ChannelKey&, std::uint32_t, IncomingChannel& channel) {
    channel.due = 0;
    channel.waiting.clear();
  });
  for (std::uint32_t rank = 0; rank < protocol_->layout().ranks(); ++rank)
    if (Rank{rank} != own_rank_) acknowledge_all(Rank{rank});
  link_kept();
  take_over();
  const ReplicaSet others = protocol_->living(own_rank_) & ~set_of(protocol_->self().replica);
  for (const Hold& hold : holds_)
    for_each_replica(others, [&](std::uint32_t replica) {
      note(protocol_->process(own_rank_, replica), Question{hold.sight});
    });
}

}  // namespace rdmc::replica
