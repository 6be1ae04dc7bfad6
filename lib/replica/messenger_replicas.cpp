// The messages of ranks that have replicas: their numbers, their acknowledgements, and what happens when a
// replica dies. The line numbers are those of Algorithm 1 of SDR-MPI.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lib/replica/messenger.hpp"

namespace rdmc::replica {
namespace {

std::unexpected<Error> diverged(const Envelope& envelope, const std::string& how) {
  return fail(Errc::protocol_error, "the replicas of a rank have diverged: message " +
                                        std::to_string(envelope.sequence) + " of rank " +
                                        std::to_string(envelope.source) + " with tag " +
                                        std::to_string(envelope.tag) + " " + how);
}

}  // namespace

// -- The sender. --

// Gives the message its number in its channel. Returns the replicas of `to` that have to acknowledge it.
ReplicaSet Messenger::number_message(Envelope& envelope, Rank to) {
  const auto index = to_.find_or_add({.context = envelope.context, .rank = to, .tag = envelope.tag});
  OutgoingChannel& channel = to_[index];
  if (channel.acknowledged.empty())
    channel.acknowledged.resize(protocol_->layout().degree(to));
  else if (channel.next == 0 && early_channels_ != 0)
    --early_channels_;
  envelope.sequence = channel.next++;
  ReplicaSet awaited = protocol_->toward(to).acknowledging;
  for_each_replica(awaited, [&](std::uint32_t replica) {
    if (is_before(envelope.sequence, channel.acknowledged[replica])) awaited &= ~set_of(replica);
  });
  return awaited;
}

// Keeps a message until it has been acknowledged (lines 8 and 9). If there is space for a copy, the request
// is complete at once.
void Messenger::keep(std::uint32_t outgoing) {
  Outgoing& message = outgoing_[outgoing];
  const auto index =
      to_.find({.context = message.envelope.context, .rank = message.to, .tag = message.envelope.tag});
  OutgoingChannel& channel = to_[index];
  if (channel.first_kept == kNoIndex)
    channel.first_kept = outgoing;
  else
    outgoing_[channel.last_kept].next_kept = outgoing;
  channel.last_kept = outgoing;
  message.is_kept = true;
  const std::size_t bytes = message.bytes.size() + kEagerOverhead;
  if (options_.is_strict || message.bytes.size() > kMostEagerBytes ||
      kept_bytes_[value_of(message.to)] + bytes > kMostKept)
    return;
  copy(message);
  requests_[*message.request].is_complete = true;
  message.request.reset();
}

void Messenger::copy(Outgoing& message) {
  message.copy.assign(message.bytes.begin(), message.bytes.end());
  message.bytes = message.copy;
  message.is_copied = true;
  kept_bytes_[value_of(message.to)] += message.copy.size() + kEagerOverhead;
}

// Forgets the messages at the beginning of the list that nobody has to acknowledge any more.
void Messenger::release_kept(std::uint32_t index) {
  OutgoingChannel& channel = to_[index];
  while (channel.first_kept != kNoIndex && outgoing_[channel.first_kept].awaited == 0) {
    const std::uint32_t first = std::exchange(channel.first_kept, outgoing_[channel.first_kept].next_kept);
    outgoing_[first].is_kept = false;
    settle(first);
  }
}

// Line 14, for all messages that the acknowledgement stands for.
Result<void> Messenger::handle(ProcessId from, const Acknowledgement& acknowledgement) {
  if (!is_replicated_) return fail(Errc::protocol_error, "an acknowledgement for a rank without replicas");
  const ReplicaId id = protocol_->replica(from);
  if (id.rank == own_rank_) return fail(Errc::protocol_error, "an acknowledgement from the own rank");
  const ChannelKey key{.context = acknowledgement.context, .rank = id.rank, .tag = acknowledgement.tag};
  auto index = to_.find(key);
  if (index == kNoIndex) {
    // Another replica has sent this message earlier than this process.
    if (has_ended(key.context)) return {};
    if (early_channels_ == kMostEarlyChannels)
      return fail(Errc::protocol_error, "acknowledgements for too many messages that were not sent yet");
    ++early_channels_;
    index = to_.find_or_add(key);
    to_[index].acknowledged.resize(protocol_->layout().degree(id.rank));
  }
  std::uint32_t& before = to_[index].acknowledged[id.replica];
  if (!is_before(before, acknowledgement.sequence)) return {};
  before = acknowledgement.sequence;
  for (std::uint32_t i = to_[index].first_kept; i != kNoIndex;) {
    Outgoing& message = outgoing_[i];
    if (!is_before(message.envelope.sequence, acknowledgement.sequence)) break;
    const std::uint32_t next = message.next_kept;
    message.awaited &= ~set_of(id.replica);
    settle(i);
    i = next;
  }
  release_kept(index);
  if (to_[index].first_kept == kNoIndex && has_ended(key.context)) to_.remove(index);
  return {};
}

// A replica of a rank is dead. Nothing more is expected from it (lines 31 to 33). If it was the last one, the
// messages to the rank fail with `cause`.
void Messenger::fail_outgoing(const ReplicaId& dead, const std::optional<Error>& cause) {
  for (std::uint32_t i = 0; i < outgoing_.end(); ++i) {
    Outgoing* const message = outgoing_.find(i);
    if (!message || message->to != dead.rank || dead.rank == own_rank_) continue;
    message->awaited &= ~set_of(dead.replica);
    if (cause && message->request) {
      fail_request(*message->request, *cause);
      message->request.reset();
    }
    settle(i);
  }
  to_.for_each([&](const ChannelKey& key, std::uint32_t index, OutgoingChannel&) {
    if (key.rank == dead.rank) release_kept(index);
  });
}

// Sends what a dead replica of this rank may not have sent (lines 21 to 25). The receivers drop what they
// have already.
void Messenger::take_over() {
  std::vector<std::uint32_t> kept;
  for (std::uint32_t i = 0; i < outgoing_.end(); ++i)
    if (const Outgoing* const message = outgoing_.find(i); message && message->awaited != 0)
      kept.push_back(i);
  std::ranges::sort(kept, {}, [&](std::uint32_t i) { return outgoing_[i].number; });
  std::vector<ProcessId> receivers;
  for (const std::uint32_t i : kept) {
    Outgoing& message = outgoing_[i];
    const ReplicaSet mine = message.awaited & protocol_->toward(message.to).receivers;
    message.awaited &= ~mine;
    for_each_replica(mine, [&](std::uint32_t replica) {
      const ProcessId to = protocol_->process(message.to, replica);
      add_transfer(i, to);
      receivers.push_back(to);
      ++counters_.sent_for_dead;
    });
  }
  to_.for_each([&](const ChannelKey&, std::uint32_t index, OutgoingChannel&) { release_kept(index); });
  for (const ProcessId to : receivers) pump(to);
}

// -- The receiver. --

// Returns the channel of a message, or kNoIndex if neither the sender's rank nor this one has replicas.
std::uint32_t Messenger::channel_from(ProcessId from, const Envelope& envelope) {
  const Rank rank = rank_of(from);
  if (!has_numbers(rank)) return kNoIndex;
  return from_.find_or_add({.context = envelope.context, .rank = rank, .tag = envelope.tag});
}

// Returns true if no replica has sent the message before. The messages of one replica come in order, so only
// replicas that do not send the same messages can leave a gap. After the end of a communicator, there can be
// gaps, because its channels have been forgotten.
Result<bool> Messenger::note_number(std::uint32_t index, const Envelope& envelope, bool has_context) {
  IncomingChannel& channel = from_[index];
  if (is_before(envelope.sequence, channel.expected)) return false;
  if (envelope.sequence != channel.expected && has_context)
    return diverged(envelope, "has come before message " + std::to_string(channel.expected));
  channel.expected = envelope.sequence + 1;
  if (!channel.waiting.empty()) answer_waiting(index);
  return true;
}

// Notes that this process has a message of `bytes` bytes. An acknowledgement to the other replicas of the
// sender is due then (lines 15 to 17). An urgent one is sent at once.
void Messenger::acknowledge(std::uint32_t channel, ProcessId from, std::size_t bytes, bool is_urgent) {
  const ReplicaId sender = protocol_->replica(from);
  acknowledge_to(protocol_->acknowledged(sender.rank, sender.replica), sender.rank, channel, bytes,
                 is_urgent);
}

void Messenger::acknowledge_to(ReplicaSet replicas, Rank source, std::uint32_t channel, std::size_t bytes,
                               bool is_urgent) {
  for_each_replica(replicas, [&](std::uint32_t replica) {
    const ProcessId to = protocol_->process(source, replica);
    Peer& other = peer(to);
    if (other.due.empty()) acknowledging_.push_back(to);
    if ((from_[channel].due & set_of(replica)) == 0) {
      from_[channel].due |= set_of(replica);
      other.due.push_back(channel);
    }
    other.due_bytes += bytes + kEagerOverhead;
    other.is_due_now = other.is_due_now || is_urgent || other.due_bytes >= kMostKept / 4;
  });
  // Sending can remove the channel, if its communicator has ended.
  for_each_replica(replicas, [&](std::uint32_t replica) {
    const ProcessId to = protocol_->process(source, replica);
    if (peer(to).is_due_now) pump(to);
  });
}

bool Messenger::has_deferred() const {
  return !acknowledging_.empty() || (comparison_.is_active() && comparison_.due() != 0);
}

void Messenger::send_deferred() {
  for (const ProcessId to : std::vector(acknowledging_)) {
    peer(to).is_due_now = true;
    pump(to);
  }
  if (comparison_.is_active()) begin_reports();
}

// Sends the acknowledgements that are due. Returns false if there is no space.
bool Messenger::send_due(ProcessId to) {
  Peer& other = peer(to);
  const ReplicaSet bit = set_of(protocol_->replica(to).replica);
  while (!other.due.empty()) {
    const auto room = carrier_->room(to, kLongestRecordBytes);
    if (room.empty()) return false;
    const std::uint32_t index = other.due.back();
    IncomingChannel& channel = from_[index];
    const ChannelKey& key = from_.key(index);
    // A message that was announced and is not complete holds back the acknowledgement of the later ones.
    const std::uint32_t sequence =
        channel.open.empty() ? channel.expected : arrivals_[channel.open.front()].envelope.sequence;
    carrier_->fill(
        to, encode(Acknowledgement{.context = key.context, .tag = key.tag, .sequence = sequence}, room));
    ++counters_.acknowledgements;
    channel.due &= ~bit;
    other.due.pop_back();
    if (has_ended(key.context) && is_unused(channel)) from_.remove(index);
  }
  other.is_due_now = false;
  other.due_bytes = 0;
  std::erase(acknowledging_, to);
  return true;
}

std::optional<std::uint32_t> Messenger::open_arrival(std::uint32_t channel, std::uint32_t sequence) const {
  for (const std::uint32_t index : from_[channel].open)
    if (arrivals_[index].envelope.sequence == sequence) return index;
  return std::nullopt;
}

// The bytes of a message have come that another replica has sent or announced before.
Result<void> Messenger::repeat(std::uint32_t channel, ProcessId from, const Eager& eager) {
  ++counters_.repeated;
  if (const auto index = open_arrival(channel, eager.envelope.sequence)) {
    Arrival& arrival = arrivals_[*index];
    if (arrival.bytes != eager.bytes.size()) return diverged(eager.envelope, "has different lengths");
    if (!arrival.exposed) {
      give_bytes(*index, from, eager.bytes);
      return {};
    }
    arrival.alternates.push_back({.from = from, .bytes = {eager.bytes.begin(), eager.bytes.end()}});
    return {};  // The first sender is writing the bytes.
  }
  note_consumed(from, eager.bytes.size());
  return {};
}

Result<void> Messenger::repeat(std::uint32_t channel, ProcessId from, const Announcement& announcement) {
  ++counters_.repeated;
  const auto index = open_arrival(channel, announcement.envelope.sequence);
  if (!index) {
    refuse(from, announcement.transfer);
    return {};
  }
  if (arrivals_[*index].bytes != announcement.bytes)
    return diverged(announcement.envelope, "has different lengths");
  const Alternate other{.from = from, .transfer = announcement.transfer};
  if (arrivals_[*index].lacks_sender)
    adopt(*index, other);
  else
    arrivals_[*index].alternates.push_back(other);
  return {};
}

// An announced message gets its bytes from `from`, which has sent them at once.
void Messenger::give_bytes(std::uint32_t index, ProcessId from, std::span<const std::byte> bytes) {
  Arrival& arrival = arrivals_[index];
  const ProcessId first = arrival.from;
  const auto transfer = std::exchange(arrival.transfer, std::nullopt);
  const auto request = arrival.request;
  const Envelope envelope = arrival.envelope;
  arrival.from = from;
  arrival.lacks_sender = false;
  if (request) {
    std::erase(peer(first).ungranted, index);
    remove_arrival(index);
    fill_receive(*request, envelope, bytes);
    note_consumed(from, bytes.size());
  } else {
    arrival.stored.assign(bytes.begin(), bytes.end());
    arrival.owes_credit = true;
    close(index);
  }
  if (transfer) refuse(first, *transfer);
}

// Another replica sends an announced message in place of the dead one (lines 34 and 35).
void Messenger::adopt(std::uint32_t index, const Alternate& other) {
  if (!other.transfer) return give_bytes(index, other.from, other.bytes);
  Arrival& arrival = arrivals_[index];
  arrival.from = other.from;
  arrival.transfer = other.transfer;
  arrival.lacks_sender = false;
  if (!arrival.request) return;
  peer(other.from).ungranted.push_back(index);
  grant_next(other.from);
}

// What a dead process has announced comes from another replica. If there is none, it fails with `cause`.
void Messenger::drop_arrivals(ProcessId dead, bool is_last, const Error& cause) {
  const ReplicaId id = protocol_->replica(dead);
  for (std::uint32_t i = 0; i < arrivals_.end(); ++i) {
    Arrival* const arrival = arrivals_.find(i);
    if (!arrival) continue;
    std::erase_if(arrival->alternates, [&](const Alternate& other) { return other.from == dead; });
    const bool depends = arrival->from == dead || (is_last && rank_of(arrival->from) == id.rank);
    if (!depends || (!arrival->transfer && !arrival->lacks_sender)) continue;
    if (arrival->exposed) carrier_->withdraw(*std::exchange(arrival->exposed, std::nullopt));
    if (is_last) {
      // An announced message that no receive has matched yet stays in its queue. Its receive will fail.
      if (!arrival->request) continue;
      fail_request(*arrival->request, cause);
      remove_arrival(i);
      continue;
    }
    if (arrival->from != dead) continue;
    arrival->transfer.reset();
    arrival->lacks_sender = true;
    if (!arrival->alternates.empty()) {
      const Alternate other = std::move(arrival->alternates.front());
      arrival->alternates.erase(arrival->alternates.begin());
      adopt(i, other);
    }
  }
  const ReplicaSet bit = set_of(id.replica);
  from_.for_each([&](const ChannelKey& key, std::uint32_t, IncomingChannel& channel) {
    if (key.rank == id.rank) channel.due &= ~bit;
  });
}

// Forgets the channels of a communicator that has ended, unless something is still due.
void Messenger::close_channels(ContextId context) {
  std::vector<std::uint32_t> ended;
  to_.for_each([&](const ChannelKey& key, std::uint32_t index, const OutgoingChannel& channel) {
    if (key.context == context && channel.first_kept == kNoIndex) ended.push_back(index);
  });
  for (const std::uint32_t index : std::exchange(ended, {})) {
    if (to_[index].next == 0) --early_channels_;
    to_.remove(index);
  }
  from_.for_each([&](const ChannelKey& key, std::uint32_t index, const IncomingChannel& channel) {
    if (key.context == context && is_unused(channel)) ended.push_back(index);
  });
  for (const std::uint32_t index : ended) from_.remove(index);
}

// An announced message is complete, or is wanted no more. The others need not send it.
void Messenger::close(std::uint32_t index) {
  Arrival& arrival = arrivals_[index];
  const std::uint32_t channel = std::exchange(arrival.channel, kNoIndex);
  if (channel == kNoIndex) return;
  const ProcessId from = arrival.from;
  const auto bytes = static_cast<std::size_t>(arrival.bytes);
  const auto alternates = std::exchange(arrival.alternates, {});
  std::erase(from_[channel].open, index);
  // The message has held back the acknowledgements of later ones, which its sender may wait for.
  const bool has_later = from_[channel].expected != arrival.envelope.sequence + 1;
  const ReplicaId sender = protocol_->replica(from);
  acknowledge_to(
      has_later ? acknowledged_at(sender.rank) : protocol_->acknowledged(sender.rank, sender.replica),
      sender.rank, channel, bytes, true);
  for (const Alternate& other : alternates) drop(other);
}

void Messenger::drop(const Alternate& other) {
  if (other.transfer)
    refuse(other.from, *other.transfer);
  else
    note_consumed(other.from, other.bytes.size());
}

void Messenger::remove_arrival(std::uint32_t index) {
  close(index);
  arrivals_.remove(index);
}

bool Messenger::is_settled() const {
  if (has_deferred() || !holds_.empty()) return false;
  for (std::uint32_t i = 0; i < outgoing_.end(); ++i)
    if (const Outgoing* const message = outgoing_.find(i); message && !message->request) return false;
  return true;
}

}  // namespace rdmc::replica
