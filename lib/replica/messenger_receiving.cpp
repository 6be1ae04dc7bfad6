#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "lib/replica/messenger.hpp"

namespace rdmc::replica {

Result<void> Messenger::on_records(ProcessId from, std::span<const std::byte> records) {
  if (peer(from).failure) return {};
  for (RecordReader reader(records); !reader.done();) {
    const auto record = reader.next();
    if (!record) return std::unexpected(record.error());
    const auto handled = std::visit([&](const auto& one) { return handle(from, one); }, *record);
    if (!handled) return handled;
  }
  return {};
}

// Returns the communicator of a message, or null if the communicator has ended here. A communicator may be
// known to the sender earlier than here. Then its messages wait.
Result<Messenger::Context*> Messenger::arrival_context(const Envelope& envelope, ProcessId from) {
  Context* context = context_of(envelope.context);
  if (!context) {
    if (has_ended(envelope.context)) return nullptr;
    if (early_contexts_ == kMostEarlyContexts)
      return fail(Errc::protocol_error, "messages for too many communicators that do not exist yet");
    ++early_contexts_;
    const auto all = static_cast<std::uint32_t>(rank_failures_.size());
    context =
        &contexts_.emplace(envelope.context, Context{.members = {}, .rank = 0, .queue = MatchQueue(all)})
             .first->second;
  }
  const bool is_member = context->members.empty() ? envelope.source < rank_failures_.size()
                                                  : envelope.source < context->members.size() &&
                                                        context->members[envelope.source] == rank_of(from);
  if (!is_member) return fail(Errc::protocol_error, "a message from a rank that the sender is not");
  return context;
}

std::uint32_t Messenger::add_arrival(Arrival arrival) {
  arrival.order = ++arrived_;
  return arrivals_.add(std::move(arrival));
}

Result<void> Messenger::handle(ProcessId from, const Eager& eager) {
  const auto context = arrival_context(eager.envelope, from);
  if (!context) return std::unexpected(context.error());
  peer(from).unreported += eager.bytes.size() + kEagerOverhead;
  if (peer(from).unreported > kEagerWindow)
    return fail(Errc::protocol_error, "more eager messages than the window permits");
  counters_.bytes_received += eager.bytes.size();
  if (const std::uint32_t channel = channel_from(from, eager.envelope); channel != kNoIndex) {
    const auto is_new = note_number(channel, eager.envelope, *context != nullptr);
    if (!is_new) return std::unexpected(is_new.error());
    if (!*is_new) return repeat(channel, from, eager);
    acknowledge(channel, from, eager.bytes.size(), options_.is_strict);
  }
  if (!*context) {
    note_consumed(from, eager.bytes.size());
    return {};
  }
  const std::uint32_t index =
      add_arrival({.from = from, .envelope = eager.envelope, .bytes = eager.bytes.size()});
  if (const auto request = (*context)->queue.arrive(index, eager.envelope.source, eager.envelope.tag)) {
    arrivals_.remove(index);
    requests_[*request].sight = sight_of(eager.envelope, from);
    requests_[*request].order = arrived_;
    fill_receive(*request, eager.envelope, eager.bytes);
    note_consumed(from, eager.bytes.size());
    return {};
  }
  ++counters_.unexpected;
  arrivals_[index].stored.assign(eager.bytes.begin(), eager.bytes.end());
  return {};
}

Result<void> Messenger::handle(ProcessId from, const Announcement& announcement) {
  const auto context = arrival_context(announcement.envelope, from);
  if (!context) return std::unexpected(context.error());
  if (++peer(from).unanswered > kMostAnnounced)
    return fail(Errc::protocol_error, "more announced messages than the limit permits");
  const std::uint32_t channel = channel_from(from, announcement.envelope);
  if (channel != kNoIndex) {
    const auto is_new = note_number(channel, announcement.envelope, *context != nullptr);
    if (!is_new) return std::unexpected(is_new.error());
    if (!*is_new) return repeat(channel, from, announcement);
  }
  if (!*context) {
    if (channel != kNoIndex) acknowledge(channel, from, 0, true);
    refuse(from, announcement.transfer);
    return {};
  }
  const std::uint32_t index = add_arrival({.from = from,
                                           .envelope = announcement.envelope,
                                           .bytes = announcement.bytes,
                                           .transfer = announcement.transfer,
                                           .channel = channel});
  if (channel != kNoIndex) from_[channel].open.push_back(index);
  const auto request =
      (*context)->queue.arrive(index, announcement.envelope.source, announcement.envelope.tag);
  if (request)
    deliver(index, *request);
  else
    ++counters_.unexpected;
  return {};
}

void Messenger::note_consumed(ProcessId from, std::size_t bytes) {
  if (from == own_ || peer(from).failure) return;
  Peer& sender = peer(from);
  sender.consumed += bytes + kEagerOverhead;
  if (sender.consumed >= kEagerWindow / 4) pump(from);
}

// Tells the sender of an announced message that it need not write the message.
void Messenger::refuse(ProcessId from, std::uint32_t transfer) {
  Peer& sender = peer(from);
  if (sender.failure) return;
  --sender.unanswered;
  sender.grants.push_back({.transfer = transfer});
  pump(from);
}

void Messenger::complete_receive(std::uint32_t request, const Envelope& envelope, std::uint64_t bytes) {
  const std::size_t room = requests_[request].into.size();
  complete(request, {.source = envelope.source,
                     .tag = envelope.tag,
                     .bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, room))});
  if (bytes > room) {
    fail_request(request, {Errc::invalid_argument, "a message of " + std::to_string(bytes) +
                                                       " bytes is longer than its receive of " +
                                                       std::to_string(room) + " bytes"});
  }
}

void Messenger::fill_receive(std::uint32_t request, const Envelope& envelope,
                             std::span<const std::byte> bytes) {
  const auto into = requests_[request].into;
  std::ranges::copy(bytes.first(std::min(bytes.size(), into.size())), into.begin());
  complete_receive(request, envelope, bytes.size());
}

// A message that is in the queue, or was about to enter it, has matched a receive.
void Messenger::deliver(std::uint32_t arrival, std::uint32_t request) {
  Arrival& message = arrivals_[arrival];
  requests_[request].sight = sight_of(message.envelope, message.from);
  requests_[request].order = message.order;
  if (message.lacks_sender && !failure_of_rank(rank_of(message.from))) {
    message.request = request;
  } else if (message.lacks_sender) {
    fail_request(request, *failure_of_rank(rank_of(message.from)));
    remove_arrival(arrival);
  } else if (!message.transfer) {
    if (message.stored.size() == message.bytes)
      fill_receive(request, message.envelope, message.stored);
    else
      fail_request(request, {Errc::resource_limit, "there was no memory for the message when it arrived"});
    const ProcessId from = message.from;
    const std::size_t bytes = message.stored.size();
    const bool owes_credit = message.owes_credit;
    arrivals_.remove(arrival);
    if (owes_credit) note_consumed(from, bytes);
  } else if (message.from == own_) {
    fill_receive(request, message.envelope, outgoing_[transfers_[*message.transfer].outgoing].bytes);
    finish_transfer(*message.transfer);
    arrivals_.remove(arrival);
  } else if (const auto& failure = peer(message.from).failure) {
    fail_request(request, *failure);
    remove_arrival(arrival);
  } else {
    message.request = request;
    peer(message.from).ungranted.push_back(arrival);
    grant_next(message.from);
  }
}

void Messenger::grant_next(ProcessId from) {
  Peer& sender = peer(from);
  while (!sender.ungranted.empty() && sender.granted < kMostGrants) {
    const std::uint32_t arrival = sender.ungranted.front();
    if (!grant(arrival)) break;
    sender.ungranted.pop_front();
  }
  pump(from);
}

// Returns false if the sender may be dead. Then another replica may send the message.
bool Messenger::grant(std::uint32_t arrival) {
  Arrival& message = arrivals_[arrival];
  const auto into = requests_[*message.request].into;
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(message.bytes, into.size()));
  Grant grant{.transfer = *message.transfer, .arrival = arrival, .bytes = bytes};
  if (bytes == 0) {
    complete_receive(*message.request, message.envelope, message.bytes);
  } else if (auto exposed = carrier_->expose(message.from, into.first(bytes), kPieceBytes)) {
    grant.remote_address = exposed->remote_address;
    grant.remote_key = exposed->remote_key;
    message.exposed = exposed->handle;
    message.missing = bytes;
    ++peer(message.from).granted;
  } else if (exposed.error().code == Errc::would_block) {
    return false;
  } else {
    fail_request(*message.request, std::move(exposed.error()));
    grant.bytes = 0;
  }
  --peer(message.from).unanswered;
  peer(message.from).grants.push_back(grant);
  if (grant.bytes == 0) remove_arrival(arrival);
  return true;
}

Result<void> Messenger::on_write_arrived(ProcessId from, std::uint32_t arrival, std::size_t bytes) {
  if (peer(from).failure) return {};
  Arrival* const message = arrivals_.find(arrival);
  if (!message || message->from != from || !message->exposed || bytes > message->missing || bytes == 0)
    return fail(Errc::protocol_error, "a write that was not granted");
  counters_.bytes_received += bytes;
  message->missing -= bytes;
  if (message->missing != 0) return {};
  carrier_->withdraw(*message->exposed);
  complete_receive(*message->request, message->envelope, message->bytes);
  remove_arrival(arrival);
  --peer(from).granted;
  if (!peer(from).ungranted.empty()) grant_next(from);
  return {};
}

}  // namespace rdmc::replica
