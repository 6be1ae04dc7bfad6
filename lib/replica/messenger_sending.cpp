#include <algorithm>
#include <cassert>
#include <utility>

#include "lib/replica/messenger.hpp"

namespace rdmc::replica {

bool Messenger::may_be_eager(const Peer& peer, std::size_t bytes) const {
  return bytes <= kMostEagerBytes && peer.eager_outstanding + bytes + kEagerOverhead <= kEagerWindow;
}

// Sends a message at once, if it may be eager and there is space.
bool Messenger::send_now(Peer& peer, ProcessId to, const Envelope& envelope,
                         std::span<const std::byte> bytes) {
  if (!may_be_eager(peer, bytes.size())) return false;
  const auto room = carrier_->room(to, kEagerHeadBytes + bytes.size());
  if (room.empty()) return false;
  carrier_->fill(to, encode(Eager{envelope, bytes}, room));
  peer.eager_outstanding += bytes.size() + kEagerOverhead;
  return true;
}

// Sends the oldest message of `unsent`, or its announcement. Returns false if there is no space.
bool Messenger::send_first(Peer& peer) {
  const std::uint32_t index = peer.unsent.front();
  Transfer& transfer = transfers_[index];
  const Outgoing& message = outgoing_[transfer.outgoing];
  if (may_be_eager(peer, message.bytes.size())) {
    if (!send_now(peer, transfer.to, message.envelope, message.bytes)) return false;
    peer.unsent.pop_front();
    finish_transfer(index);
    return true;
  }
  if (peer.announced == kMostAnnounced) return false;
  const auto room = carrier_->room(transfer.to, kLongestRecordBytes);
  if (room.empty()) return false;
  ++peer.announced;
  const Announcement announcement{
      .envelope = message.envelope, .transfer = index, .bytes = message.bytes.size()};
  carrier_->fill(transfer.to, encode(announcement, room));
  transfer.is_announced = true;
  peer.unsent.pop_front();
  return true;
}

void Messenger::send_to_self(std::uint32_t request, const Envelope& envelope,
                             std::span<const std::byte> bytes) {
  const bool is_short = bytes.size() <= kMostEagerBytes;
  Arrival arrival{.from = own_, .envelope = envelope, .bytes = bytes.size()};
  if (!is_short) {
    const std::uint32_t outgoing = outgoing_.add(
        {.to = own_rank_, .envelope = envelope, .bytes = bytes, .request = request, .transfers = 1});
    arrival.transfer = transfers_.add({.to = own_, .outgoing = outgoing});
  }
  const std::uint32_t index = add_arrival(std::move(arrival));
  const auto receive = context_of(envelope.context)->queue.arrive(index, envelope.source, envelope.tag);
  if (is_short) {
    arrivals_[index].stored.assign(bytes.begin(), bytes.end());
    requests_[request].is_complete = true;
  }
  if (receive)
    deliver(index, *receive);
  else
    ++counters_.unexpected;
}

void Messenger::add_transfer(std::uint32_t outgoing, ProcessId to) {
  ++outgoing_[outgoing].transfers;
  peer(to).unsent.push_back(transfers_.add({.to = to, .outgoing = outgoing}));
}

void Messenger::finish_transfer(std::uint32_t transfer) {
  const std::uint32_t outgoing = transfers_[transfer].outgoing;
  transfers_.remove(transfer);
  --outgoing_[outgoing].transfers;
  settle(outgoing);
}

// Completes the request of a message that all replicas of the receiver have, and forgets the message.
void Messenger::settle(std::uint32_t outgoing) {
  Outgoing& message = outgoing_[outgoing];
  if (message.transfers != 0 || message.awaited != 0) return;
  if (message.request) requests_[*message.request].is_complete = true;
  message.request.reset();
  if (message.is_kept) return;
  if (message.is_copied) kept_bytes_[value_of(message.to)] -= message.copy.size() + kEagerOverhead;
  outgoing_.remove(outgoing);
}

void Messenger::pump(ProcessId to) {
  Peer& receiver = peer(to);
  while (!receiver.grants.empty()) {
    const auto room = carrier_->room(to, kLongestRecordBytes);
    if (room.empty()) return;
    carrier_->fill(to, encode(receiver.grants.front(), room));
    receiver.grants.pop_front();
  }
  if (receiver.consumed >= kEagerWindow / 4) {
    const auto room = carrier_->room(to, kLongestRecordBytes);
    if (room.empty()) return;
    carrier_->fill(to, encode(Consumed{receiver.consumed}, room));
    receiver.unreported -= receiver.consumed;
    receiver.consumed = 0;
  }
  if (receiver.is_due_now && !send_due(to)) return;
  if (receiver.is_reporting && !send_reports(to)) return;
  while (!receiver.notices.empty()) {
    const auto room = carrier_->room(to, kLongestRecordBytes);
    if (room.empty()) return;
    carrier_->fill(to, encode(receiver.notices.front(), room));
    receiver.notices.pop_front();
  }
  if (is_frozen()) return;
  while (!receiver.unsent.empty()) {
    if (is_held(outgoing_[transfers_[receiver.unsent.front()].outgoing].number)) {
      if (!std::exchange(receiver.is_held, true)) held_.push_back(to);
      break;
    }
    if (!send_first(receiver)) break;
  }
  post_pieces(to);
}

// Posts pieces of the granted messages in turns, so that a short one need not wait for a long one.
void Messenger::post_pieces(ProcessId to) {
  Peer& receiver = peer(to);
  while (!receiver.writing.empty() && !is_frozen() && carrier_->can_write(to)) {
    const std::uint32_t index = receiver.writing.front();
    receiver.writing.pop_front();
    Transfer& transfer = transfers_[index];
    const std::size_t bytes = std::min<std::uint64_t>(kPieceBytes, transfer.grant->bytes - transfer.posted);
    carrier_->write(to, {.bytes = outgoing_[transfer.outgoing].bytes.subspan(transfer.posted, bytes),
                         .remote_address = transfer.grant->remote_address + transfer.posted,
                         .remote_key = transfer.grant->remote_key,
                         .arrival = transfer.grant->arrival,
                         .transfer = index});
    transfer.posted += bytes;
    ++transfer.in_flight;
    if (transfer.posted < transfer.grant->bytes) receiver.writing.push_back(index);
  }
}

Result<void> Messenger::handle(ProcessId from, const Grant& grant) {
  Transfer* const transfer = transfers_.find(grant.transfer);
  if (!transfer || transfer->to != from || !transfer->is_announced || transfer->grant ||
      grant.bytes > outgoing_[transfer->outgoing].bytes.size())
    return fail(Errc::protocol_error, "a grant for no announced message");
  if (peer(from).announced-- == kMostAnnounced) pump(from);
  if (grant.bytes == 0) {
    finish_transfer(grant.transfer);
    return {};
  }
  transfer->grant = grant;
  peer(from).writing.push_back(grant.transfer);
  post_pieces(from);
  return {};
}

Result<void> Messenger::handle(ProcessId from, const Consumed& consumed) {
  Peer& receiver = peer(from);
  if (consumed.bytes > receiver.eager_outstanding)
    return fail(Errc::protocol_error, "more was consumed than was sent");
  receiver.eager_outstanding -= consumed.bytes;
  return {};
}

void Messenger::on_written(ProcessId to, std::uint32_t transfer) {
  Transfer* const written = transfers_.find(transfer);
  if (!written || written->to != to || written->in_flight == 0) return;  // The peer has failed since.
  --written->in_flight;
  if (written->in_flight == 0 && written->posted == written->grant->bytes) finish_transfer(transfer);
  post_pieces(to);
}

void Messenger::on_room(ProcessId to) {
  if (!peer(to).failure) pump(to);
}

}  // namespace rdmc::replica
