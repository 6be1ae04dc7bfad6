// Handles READ and atomics at the requester (IBTA vol. 1, 9.4.4, 9.4.5 and 9.7.5.1.2). A READ request
// reserves one PSN for each of its responses, and only the responses acknowledge these PSNs. Responses arrive
// in order. If a response is missing, this response and all later ones are requested again. This happens when
// a later answer shows the gap, or when the timer expires.
#include <algorithm>
#include <cassert>

#include "dataplane/roce/requester.hpp"
#include "dataplane/roce/rnr.hpp"

namespace rdmc::roce {

Result<void> Requester::post_read(const ReadWork& work) {
  return post_rd_atomic({.work_id = work.work_id,
                         .opcode = SendOpcode::read,
                         .bytes = work.bytes,
                         .remote_address = work.remote_address,
                         .remote_key = work.remote_key},
                        {.memory = work.bytes.data()});
}

Result<void> Requester::post_atomic(const AtomicWork& work) {
  if (work.opcode != SendOpcode::compare_swap && work.opcode != SendOpcode::fetch_add)
    return fail(Errc::invalid_argument, "not an atomic");
  if (work.remote_address % kAtomicAckBytes != 0)
    return fail(Errc::invalid_argument, "the address of an atomic is a multiple of 8");
  return post_rd_atomic({.work_id = work.work_id,
                         .opcode = work.opcode,
                         .remote_address = work.remote_address,
                         .remote_key = work.remote_key},
                        {.swap_or_add = work.swap_or_add, .compare = work.compare});
}

Result<void> Requester::post_rd_atomic(const SendWork& work, RdAtomic rd_atomic) {
  rd_atomic.work = works_.tail();
  if (auto posted = enqueue(work); !posted) return posted;
  rd_atomics_.push(rd_atomic);
  return {};
}

/// Returns the end of the READ request that PSN s belongs to.
Sequence Requester::request_end(const Posted& posted, Sequence s) const {
  const Sequence index = (s - posted.first) / kReadRequestPackets;
  return posted.first + std::min<Sequence>((index + 1) * kReadRequestPackets, posted.packets);
}

std::uint32_t Requester::response_bytes(const Posted& posted, Sequence from, Sequence end) const {
  const auto total = static_cast<std::uint64_t>(posted.work.bytes.size());
  const auto at = [&](Sequence s) {
    return std::min(total, static_cast<std::uint64_t>(s - posted.first) * config_.path_mtu);
  };
  return static_cast<std::uint32_t>(at(end) - at(from));
}

bool Requester::may_request(const Posted& posted, Sequence s, Sequence end) const {
  if (requests_.size() == config_.max_rd_atomic) return false;
  return requests_.empty() || rd_atomic_bytes_ + response_bytes(posted, s, end) <= config_.read_window_bytes;
}

void Requester::begin_request(const Posted& posted, Sequence s, Sequence end) {
  for (Sequence later = s + 1; later < end; ++later)
    slot(later) = {
        .work = next_work_, .charge = kMinimumCharge, .transmissions = 1, .state = PacketState::awaited};
  assert(rd_atomics_[next_rd_atomic_].work == next_work_);
  requests_.push({.next = s, .end = end, .rd_atomic = next_rd_atomic_});
  if (end == posted.first + posted.packets) ++next_rd_atomic_;
  rd_atomic_bytes_ += response_bytes(posted, s, end);
}

/// Writes a request for the responses from PSN s to the end of its READ request. In the first transmission,
/// these are all responses of the request.
std::size_t Requester::write_request(const Posted& posted, Sequence s, bool ack_request, TxPacket& out) {
  const SendWork& work = posted.work;
  std::byte* const header = out.header.data();
  out.payload = {};
  out.pad_bytes = 0;
  out.extended_write = false;
  Bth bth{.opcode = Opcode::read_request,
          .ack_request = ack_request,
          .destination = config_.remote_qpn,
          .psn = space_.psn(s)};
  if (work.opcode == SendOpcode::read) {
    const std::size_t used = write_bth(header, bth);
    const auto offset = static_cast<std::uint64_t>(s - posted.first) * config_.path_mtu;
    return used + write_reth(header + used, {.address = work.remote_address + offset,
                                             .key = work.remote_key,
                                             .length = response_bytes(posted, s, request_end(posted, s))});
  }
  bth.opcode = work.opcode == SendOpcode::compare_swap ? Opcode::compare_swap : Opcode::fetch_add;
  const std::size_t used = write_bth(header, bth);
  std::uint64_t index = rd_atomics_.head();
  while (rd_atomics_[index].work != slot(s).work) ++index;
  return used + write_atomic(header + used, {.address = work.remote_address,
                                             .key = work.remote_key,
                                             .swap_or_add = rd_atomics_[index].swap_or_add,
                                             .compare = rd_atomics_[index].compare});
}

FailureCause Requester::on_response(const Packet& packet, Time now, Arrival& arrival) {
  const Sequence s = space_.nearest(una_, packet.bth.psn);
  if (s >= next_) {
    ++counters_.ghosts;
    return FailureCause::none;
  }
  if (requests_.empty() || s < unanswered()) {
    ++counters_.duplicates;
    arrival.verdict = Arrival::Verdict::duplicate;
    return FailureCause::none;
  }
  if (s > unanswered()) {
    ++counters_.out_of_order;
    arrival.verdict = Arrival::Verdict::out_of_order;
    missing_response(now);
    return FailureCause::none;
  }
  const bool has_aeth = packet.bth.opcode != Opcode::read_response_middle;
  if (has_aeth && kind_of(packet.aeth.syndrome) != AethKind::acknowledge) {
    ++counters_.ignored;
    return FailureCause::none;
  }
  RdAtomicRequest& request = requests_.front();
  RdAtomic& rd_atomic = rd_atomics_[request.rd_atomic];
  const Posted& posted = works_[rd_atomic.work];
  const Opcode opcode = packet.bth.opcode;
  const bool atomic = posted.work.opcode != SendOpcode::read;
  const bool last = s + 1 == request.end;
  const bool says_last = opcode == Opcode::read_response_last || opcode == Opcode::read_response_only;
  const std::uint32_t bytes = response_bytes(posted, s, s + 1);
  const bool fits = atomic ? opcode == Opcode::atomic_acknowledge
                           : is_read_response(opcode) && packet.payload.size() == bytes && says_last == last;
  if (!fits) {
    arrival.verdict = Arrival::Verdict::refused;
    return fail_at(s, FailureCause::bad_response);
  }
  if (has_aeth) credits_.on_answer(packet.aeth.syndrome, packet.aeth.msn);
  newly_acknowledged_ = 0;
  arrived_before_ = arrived_order_;
  asked_again_ = false;
  counters_.payload_bytes_received += bytes;
  rd_atomic_bytes_ -= bytes;
  rd_atomic.original = packet.original;
  arrival.verdict = Arrival::Verdict::accepted;
  if (bytes > 0)
    arrival.destination = rd_atomic.memory + static_cast<std::size_t>(s - posted.first) * config_.path_mtu;
  ++request.next;
  if (last) requests_.pop();
  advance(std::max(s + 1, received_to_), now);
  progress(std::nullopt, now);
  complete_works();
  return FailureCause::none;
}

/// Called when the peer has acknowledged beyond a response that has not arrived. If the peer is a foreign
/// endpoint, the response was lost ("implied NAK", 9.7.5.2.8). An endpoint of rdmc sends acknowledgements
/// before responses, so the acknowledgement only means that the request has arrived.
void Requester::note_received(Sequence to, Time now) {
  if (!config_.selective_repeat) return missing_response(now);
  received_to_ = std::max(received_to_, to);
  for (Sequence s = una_; s < to; ++s) {
    PacketSlot& packet = slot(s);
    if (packet.state == PacketState::acknowledged || packet.state == PacketState::awaited) continue;
    if (!is_rd_atomic(works_[packet.work].work.opcode)) {
      acknowledge(s, now);
      acknowledged_.set(s);
    } else if (packet.state == PacketState::in_flight) {
      remove_in_flight(index(s));
      in_flight_ -= packet.charge;
      packet.state = PacketState::awaited;
      arrived_order_ = std::max(arrived_order_, packet.order);
    }
  }
}

void Requester::missing_response(Time now) {
  if (asked_again_) return;  // If the repeated request is lost too, the timer repeats it again.
  asked_again_ = true;
  ++counters_.implied_naks;
  congestion_.on_loss(1);
  if (config_.selective_repeat)
    mark_lost(unanswered());
  else
    go_back();
  timer_start_ = now;
}

}  // namespace rdmc::roce
