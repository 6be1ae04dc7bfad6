// Handles READ requests and atomics, and sends their answers (IBTA vol. 1, 9.4.4, 9.4.5, 9.7.5.1.5). A READ
// is answered from the memory that it names, and so is a repeated READ. An atomic is executed once, and its
// result is kept. The memory is resolved for each response, so that a key can be revoked in the middle of a
// READ.
#include <algorithm>
#include <atomic>
#include <cassert>

#include "dataplane/roce/responder.hpp"
#include "dataplane/roce/rnr.hpp"

namespace rdmc::roce {

Arrival Responder::take_rd_atomic(const Packet& packet) {
  if (message_ != Message::none || !may_accept_rd_atomic())
    return refuse(kInvalidRequest, FailureCause::local_invalid_request);
  return packet.bth.opcode == Opcode::read_request ? take_read(packet) : take_atomic(packet);
}

/// True if one more READ or atomic of the peer does not exceed max_dest_rd_atomic. A request that was
/// answered once no longer counts, even while its answer is sent again, because the peer may have the first
/// answer.
bool Responder::may_accept_rd_atomic() const {
  if (resources_.size() < config_.max_dest_rd_atomic) return true;
  if (config_.max_dest_rd_atomic == 0) return false;
  const Resource& oldest = resources_.front();
  return oldest.answered;
}

void Responder::accept(const Resource& resource) {
  if (resources_.size() == config_.max_dest_rd_atomic) {
    if (resources_.front().next < resources_.front().end) --responding_;
    resources_.pop();
  }
  resources_.push(resource);
  ++responding_;
}

Arrival Responder::take_read(const Packet& packet) {
  const Reth& asked = packet.reth;
  if (asked.length > kMaxMessageBytes) return refuse(kInvalidRequest, FailureCause::local_invalid_request);
  if (asked.length > 0 && regions_.resolve(asked.key, asked.address, asked.length, RemoteAccess::read,
                                           config_.key_holder) == nullptr)
    return refuse(kRemoteAccess, FailureCause::local_access);
  const Sequence packets = asked.length == 0 ? 1 : (asked.length - 1) / config_.path_mtu + 1;
  // With selective repeat, later packets may have arrived already. No such packet may have a PSN that belongs
  // to this READ's responses.
  for (Sequence s = next_ + 1; s < std::min(end_, next_ + packets); ++s)
    if (received_.test(s)) return refuse(kInvalidRequest, FailureCause::local_invalid_request);
  msn_ = (msn_ + 1) & Psn::kMask;
  accept({.opcode = Opcode::read_request,
          .first = next_,
          .end = next_ + packets,
          .start = next_,
          .next = next_,
          .key = asked.key,
          .address = asked.address,
          .length = asked.length,
          .msn = msn_});
  next_ += packets - 1;
  return {Arrival::Verdict::accepted};
}

Arrival Responder::take_atomic(const Packet& packet) {
  const AtomicEth& asked = packet.atomic;
  if (asked.address % kAtomicAckBytes != 0)
    return refuse(kInvalidRequest, FailureCause::local_invalid_request);
  std::byte* const memory =
      regions_.resolve(asked.key, asked.address, kAtomicAckBytes, RemoteAccess::atomic, config_.key_holder);
  if (memory == nullptr) return refuse(kRemoteAccess, FailureCause::local_access);
  // A region that does not begin at a multiple of 8 cannot have atomics.
  if (reinterpret_cast<std::uintptr_t>(memory) % kAtomicAckBytes != 0)
    return refuse(kInvalidRequest, FailureCause::local_invalid_request);
  // Valid bytes are in this memory now, so no connection may expect a write there.
  regions_.claims().end_within({memory, kAtomicAckBytes});
  std::atomic_ref value(*reinterpret_cast<std::uint64_t*>(memory));
  std::uint64_t original = asked.compare;
  if (packet.bth.opcode == Opcode::fetch_add)
    original = value.fetch_add(asked.swap_or_add);
  else
    // `original` now has the value before the operation.
    value.compare_exchange_strong(original, asked.swap_or_add);
  msn_ = (msn_ + 1) & Psn::kMask;
  accept({.opcode = packet.bth.opcode,
          .first = next_,
          .end = next_ + 1,
          .start = next_,
          .next = next_,
          .msn = msn_,
          .original = original});
  return {Arrival::Verdict::accepted};
}

/// Handles a duplicate. A SEND or WRITE is acknowledged again. A READ or atomic is answered again from its
/// PSN on. A duplicate READ request that does not match the rest of an accepted READ is dropped (9.7.5.1.5).
/// The peer will send a matching request later.
void Responder::replay(const Packet& packet, Sequence s) {
  ++counters_.duplicates;
  const Opcode opcode = packet.bth.opcode;
  const bool read = opcode == Opcode::read_request;
  if (!read && !is_atomic(opcode)) {
    wanted_ = true;
    return;
  }
  for (std::uint64_t i = resources_.head(); i != resources_.tail(); ++i) {
    Resource& kept = resources_[i];
    if (s < kept.first || s >= kept.end) continue;
    const auto offset = static_cast<std::uint64_t>(s - kept.first) * config_.path_mtu;
    const bool same = kept.opcode == opcode && (!read || (packet.reth.key == kept.key &&
                                                          packet.reth.address == kept.address + offset &&
                                                          packet.reth.length == kept.length - offset));
    // If the answer from PSN s on has not been sent yet, it is waiting to be sent anyway.
    if (!same || s >= kept.next) return;
    if (kept.next == kept.end) ++responding_;
    kept.start = kept.next = s;
    return;
  }
}

/// Called when the peer reports congestion on the path of this side's READ responses. From now on the
/// responses are sent in bursts, with a pause after each burst.
void Responder::on_notification(Time now) {
  if (now < next_slowing_) return;
  response_pause_ = std::clamp(response_pause_ * 2, kResponsePause, kMostResponsePause);
  next_slowing_ = now + response_pause_ * 4;
}

std::size_t Responder::respond(Time now, std::span<TxPacket> out) {
  std::size_t count = 0;
  if (now < next_response_ || out.empty()) return 0;
  if (response_pause_.ns > 0) {
    out = out.first(std::min<std::size_t>(out.size(), kResponseBurst));
    next_response_ = now + response_pause_;
    response_pause_ = response_pause_ * 7 / 8;
    if (response_pause_ < kResponsePause / 2) response_pause_ = {};
  }
  for (std::uint64_t i = resources_.head(); i != resources_.tail() && responding_ > 0; ++i) {
    Resource& resource = resources_[i];
    if (resource.next == resource.end) continue;
    while (resource.next < resource.end) {
      if (count == out.size()) return count;
      if (!write_response(resource, out[count])) {
        responding_ = 0;
        return count;
      }
      ++count;
    }
    resource.answered = true;
    --responding_;
  }
  return count;
}

/// Writes the next response. Returns false if the memory may not be read any more. In that case the peer gets
/// a NAK.
bool Responder::write_response(Resource& resource, TxPacket& out) {
  const Sequence s = resource.next;
  const bool first = s == resource.start, last = s + 1 == resource.end;
  const bool atomic = is_atomic(resource.opcode);
  const auto offset = static_cast<std::uint64_t>(s - resource.first) * config_.path_mtu;
  const auto bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(config_.path_mtu, resource.length - offset));
  out.payload = {};
  if (bytes > 0) {
    const std::byte* const memory = regions_.resolve(resource.key, resource.address + offset, bytes,
                                                     RemoteAccess::read, config_.key_holder);
    if (memory == nullptr) {
      refuse_at(s, kRemoteAccess, FailureCause::local_access);
      return false;
    }
    out.payload = {memory, bytes};
  }
  ++resource.next;
  out.pad_bytes = static_cast<std::uint8_t>(-bytes & 3);
  const Opcode opcode = atomic          ? Opcode::atomic_acknowledge
                        : first && last ? Opcode::read_response_only
                        : first         ? Opcode::read_response_first
                        : last          ? Opcode::read_response_last
                                        : Opcode::read_response_middle;
  std::byte* const header = out.header.data();
  std::size_t used = write_bth(header, {.opcode = opcode,
                                        .pad_bytes = out.pad_bytes,
                                        .destination = config_.remote_qpn,
                                        .psn = space_.psn(s)});
  if (opcode != Opcode::read_response_middle)
    used += write_aeth(header + used, {.syndrome = acknowledge_syndrome(), .msn = resource.msn});
  if (atomic) used += write_original(header + used, resource.original);
  out.header_bytes = static_cast<std::uint8_t>(used);
  out.bulk = true;
  out.extended_write = false;
  ++counters_.packets_sent;
  counters_.payload_bytes_sent += bytes;
  return true;
}

}  // namespace rdmc::roce
