// Handles the answers to this side's requests: ACKs, X_ACKNOWLEDGEs, and NAKs. Every answer to a PSN
// acknowledges all PSNs before it (IBTA vol. 1, 9.7.5.1.1).
#include <algorithm>
#include <bit>

#include "dataplane/base/bytes.hpp"
#include "dataplane/roce/requester.hpp"
#include "dataplane/roce/rnr.hpp"

namespace rdmc::roce {

FailureCause Requester::on_acknowledge(const Packet& packet, Time now) {
  const Sequence s = space_.nearest(una_, packet.bth.psn);
  if (s >= next_) {
    ++counters_.ghosts;
    return FailureCause::none;
  }
  if (is_reserved(packet.aeth.syndrome)) {
    ++counters_.ignored;
    return FailureCause::none;
  }
  const AethKind kind = kind_of(packet.aeth.syndrome);
  newly_acknowledged_ = 0;
  arrived_before_ = arrived_order_;
  std::optional<Duration> rtt;
  FailureCause cause = FailureCause::none;
  if (kind == AethKind::acknowledge) {
    rtt = round_trip(packet, s, now);
    const bool stale = s + 1 < una_;  // A later answer has overtaken this one.
    if (stale) ++counters_.stale;
    credits_.on_answer(packet.aeth.syndrome, packet.aeth.msn);
    advance(s + 1, now);
    if (s >= unanswered()) note_received(s + 1, now);
    if (packet.bth.opcode == Opcode::x_acknowledge && !stale) {
      take_bitmap(packet.x_ack, s + 1, now);
      detect_losses();
    }
  } else {
    advance(s, now);
    // The answer belongs to a packet that has been acknowledged in the meantime.
    if (s < una_) {
      ++counters_.stale;
      return FailureCause::none;
    }
    if (kind == AethKind::receiver_not_ready) {
      cause = receiver_not_ready(s, packet.aeth.syndrome, now);
    } else {
      switch (packet.aeth.syndrome) {
        case kSequenceError: sequence_error(s, now); break;
        case kInvalidRequest: cause = FailureCause::remote_invalid_request; break;
        case kRemoteAccess: cause = FailureCause::remote_access; break;
        case kRemoteOperational: cause = FailureCause::remote_operational; break;
        default: break;
      }
      if (cause != FailureCause::none) {
        ++counters_.refusals_received;
        fail_at(s, cause);
      }
    }
  }
  progress(rtt, now);
  complete_works();
  return cause;
}

void Requester::progress(const std::optional<Duration>& rtt, Time now) {
  if (newly_acknowledged_ == 0) return;
  silence_ = {};
  expiries_ = 0;
  // A doubled timeout is kept until a packet that was sent only once measures the round trip again (RFC 6298,
  // 5.7).
  if (rtt || !(rtt_.measured() || config_.selective_repeat)) backoff_ = 0;
  if (!resume_) timer_start_ = now;
  congestion_.on_acknowledge(rtt, rtt_, newly_acknowledged_, limited_, now);
  limited_ = next_ < assigned_;
}

// If a packet was sent twice, its answer does not show which transmission arrived. So the answer measures no
// round trip (Karn's algorithm).
std::optional<Duration> Requester::round_trip(const Packet& packet, Sequence cumulative, Time now) {
  const bool selective = packet.bth.opcode == Opcode::x_acknowledge;
  const Sequence s = selective ? space_.nearest(una_, packet.x_ack.newest) : cumulative;
  if (s < una_ || s >= next_) return std::nullopt;
  PacketSlot& newest = slot(s);
  if (newest.state != PacketState::in_flight) return std::nullopt;
  if (selective && newest.transmissions == 1 && newest.order > arrived_order_) {
    // The packet has arrived, even if the peer could not keep it because it is a SEND after a gap.
    arrived_order_ = newest.order;
    arrived_sent_at_ = newest.sent_at;
  }
  if (newest.transmissions != 1) return std::nullopt;
  const Duration whole = now - newest.sent_at;
  const Duration path = selective ? whole - nanoseconds(packet.x_ack.delay_ns) : whole;
  rtt_.sample(whole, std::max(path, nanoseconds(1)), newest.charge * 2 >= config_.path_mtu, now);
  const Duration network = std::max(path - nanoseconds(newest.egress_ns), nanoseconds(1));
  if (!selective) return network;
  // The time in queues on the path back is subtracted, because a smaller window of this connection would not
  // shorten these queues.
  const std::uint32_t answered = packet.x_ack.arrival_ns + packet.x_ack.delay_ns;
  const Duration back = back_.sample(answered, static_cast<std::uint32_t>(now.ns), now);
  return std::max(network - back, std::min(network, rtt_.least()));
}

void Requester::acknowledge(Sequence s, Time now) {
  PacketSlot& packet = slot(s);
  const bool again = packet.transmissions > 1;
  only_probes_answered_ &= again;
  if (packet.state == PacketState::awaited) {
    packet.state = PacketState::acknowledged;
    newly_acknowledged_ += packet.charge;
    return;
  }
  if (packet.state == PacketState::in_flight) {
    remove_in_flight(index(s));
    in_flight_ -= packet.charge;
  } else if (packet.state == PacketState::lost) {
    lost_.clear(s);
    --lost_count_;
  }
  const bool may_be_of_the_first = !rtt_.measured() || now - packet.sent_at < rtt_.least();
  if (packet.state == PacketState::lost || (again && may_be_of_the_first)) {
    // The packet was only overtaken. Either it was found lost but has not been sent again yet, or its answer
    // came so soon that it cannot be the answer to the second transmission.
    if (expiries_ == 0 && s != refused_) reorder_ = std::min(reorder_ * 2, kMaxReorderPackets);
  } else {
    // This packet is acknowledged later than a packet that was sent after it. So the network reorders
    // packets, at least by this number of transmissions.
    if (!again && packet.order < arrived_before_)
      reorder_ = std::clamp(arrived_before_ - packet.order + 1, reorder_, kMaxReorderPackets);
    if (packet.order > arrived_order_) {
      arrived_order_ = packet.order;
      arrived_sent_at_ = packet.sent_at;
    }
  }
  packet.state = PacketState::acknowledged;
  newly_acknowledged_ += packet.charge;
}

void Requester::advance(Sequence to, Time now) {
  to = std::min(to, unanswered());
  if (to <= una_) return;
  for (; una_ < to; ++una_) {
    if (slot(una_).state == PacketState::acknowledged)
      acknowledged_.clear(una_);
    else
      acknowledge(una_, now);
  }
  only_probes_answered_ &= una_ < next_;
  if (resume_ && una_ > refused_) resume_.reset();  // A receive was posted before the retry.
}

void Requester::take_bitmap(const XAck& ack, Sequence first, Time now) {
  for (std::uint32_t w = 0; w < ack.words; ++w, first += 32) {
    if (first >= next_) return;
    std::uint32_t bits = load_be<std::uint32_t>(ack.bitmap + 4 * w) & ~acknowledged_.word32(first);
    for (; bits != 0; bits &= bits - 1) {
      const Sequence s = first + std::countr_zero(bits);
      if (s >= next_) {
        ++counters_.ghosts;
        return;
      }
      acknowledge(s, now);
      acknowledged_.set(s);
    }
  }
}

void Requester::sequence_error(Sequence s, Time now) {
  ++counters_.sequence_naks_received;
  const PacketSlot& packet = slot(s);
  // The NAK is for an earlier transmission. The packet has been sent again less than one round trip ago, so
  // the answer to this transmission cannot have arrived.
  if (packet.transmissions > 1 && rtt_.measured() && now - packet.sent_at < rtt_.least()) return;
  if (packet.state != PacketState::in_flight) return;
  congestion_.on_loss(1);
  go_back();
  timer_start_ = now;
}

}  // namespace rdmc::roce
