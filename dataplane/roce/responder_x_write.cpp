// Handles X_WRITE packets. They are placed as they arrive. They are completed in PSN order, except unordered
// WRITEs.
#include <algorithm>

#include "dataplane/roce/responder.hpp"
#include "dataplane/roce/rnr.hpp"

namespace rdmc::roce {

// A bad packet is refused if all earlier packets have arrived; otherwise it is dropped. So the NAK
// acknowledges all packets before the bad one, as every NAK does.
Arrival Responder::take_x_write(const Packet& packet, Sequence s, bool in_order) {
  const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
  const bool ends = packet.bth.opcode != Opcode::x_write;
  const std::uint32_t remaining = packet.x_write.remaining;
  const bool well_formed =
      ends ? remaining == bytes && bytes <= config_.path_mtu : remaining > bytes && bytes == config_.path_mtu;
  if (!well_formed) {
    return in_order ? refuse(kInvalidRequest, FailureCause::local_invalid_request) : Arrival{};
  }
  PendingCompletion& kept = pending(s);
  const bool is_placed = in_order && kept.placed;
  std::byte* destination = nullptr;
  if (bytes > 0 && !is_placed) {
    destination = regions_.resolve(packet.x_write.key, packet.x_write.address, bytes, RemoteAccess::write,
                                   config_.key_holder);
    if (destination == nullptr)
      return in_order ? refuse(kRemoteAccess, FailureCause::local_access) : Arrival{};
    counters_.payload_bytes_received += bytes;
  }
  prediction_.on_arrival(packet.x_write, bytes, destination, s >= end_);
  kept = {.destination = is_placed ? kept.destination : destination,
          .bytes = bytes,
          .immediate = packet.x_write.immediate,
          .ends = ends,
          .has_immediate = packet.bth.opcode == Opcode::x_write_last_immediate,
          .begins_unordered = packet.x_write.begins_unordered};
  received_.set(s);
  end_ = std::max(end_, s + 1);
  if (in_order) {
    waiting_ = false;
    settle();
    if (failure_ != FailureCause::none) return {Arrival::Verdict::refused};
  } else {
    complete_ahead(s);
  }
  return {Arrival::Verdict::accepted, destination};
}

// Handles all arrived packets from next_ up to the next gap.
void Responder::settle() {
  while (received_.test(next_)) {
    PendingCompletion& kept = pending(next_);
    if (message_ == Message::send) {
      refuse(kInvalidRequest, FailureCause::local_invalid_request);
      return;
    }
    const bool completes = kept.has_immediate && !kept.completed;
    if (completes && receives_.empty()) {
      // The peer is informed that the packet was not received, so it will send the packet again. But the
      // bytes stay in place.
      received_.clear(next_);
      kept.placed = waiting_ = true;
      not_ready();
      return;
    }
    received_.clear(next_);
    kept.placed = false;
    message_bytes_ = (message_ == Message::none ? 0 : message_bytes_) + kept.bytes;
    message_end_ = kept.destination + kept.bytes;
    message_ = kept.ends ? Message::none : Message::write;
    if (kept.ends) {
      msn_ = (msn_ + 1) & Psn::kMask;
      if (completes) complete(CompletionKind::receive_write_immediate, message_bytes_, kept.immediate);
    }
    ++next_;
  }
}

void Responder::expect(RemoteKey key, std::uint64_t remote_address, std::uint32_t bytes) {
  std::byte* const begin =
      regions_.resolve(key, remote_address, bytes, RemoteAccess::write, config_.key_holder);
  if (begin == nullptr || bytes == 0) return;
  const std::span where(begin, bytes);
  const auto shares = [&](const std::byte* end, std::size_t length) {
    return length > 0 && end > where.data() && end - length < where.data() + where.size();
  };
  bool has_begun = message_ == Message::write && shares(message_end_, message_bytes_);
  for (Sequence s = next_ + 1; s < end_ && !has_begun; ++s)
    has_begun = received_.test(s) && shares(pending(s).destination + pending(s).bytes, pending(s).bytes);
  has_begun ? prediction_.forbid(where) : prediction_.expect(where);
}

// Completes the message that packet `s` belongs to, although there is a gap before it. The message must have
// arrived as a whole and must be unordered. A SEND that is being received fills the oldest receive, so no
// other message may use that receive.
void Responder::complete_ahead(Sequence s) {
  if (message_ == Message::send || receives_.empty()) return;
  Sequence last = s;
  while (!pending(last).ends)
    if (!received_.test(++last)) return;
  if (!pending(last).has_immediate || pending(last).completed) return;
  std::uint32_t bytes = pending(last).bytes;
  Sequence first = last;
  for (; !pending(first).begins_unordered; bytes += pending(first).bytes) {
    if (!received_.test(--first) || pending(first).ends) return;
  }
  pending(last).completed = true;
  complete(CompletionKind::receive_write_immediate, bytes, pending(last).immediate);
}

}  // namespace rdmc::roce
