#include "dataplane/roce/responder.hpp"

#include <algorithm>

#include "dataplane/roce/rnr.hpp"

namespace rdmc::roce {

Responder::Responder(const ConnectionConfig& config, RegionTable& regions,
                     FixedRing<WorkCompletion>& completions, ConnectionCounters& counters)
    : config_(config),
      regions_(regions),
      completions_(completions),
      counters_(counters),
      space_(config.receive_psn),
      prediction_(regions, config.path_mtu, config.key_holder),
      receives_(config.receive_depth),
      resources_(config.max_dest_rd_atomic) {}

Result<void> Responder::post(const ReceiveWork& work) {
  if (outstanding_ == config_.receive_depth) return fail(Errc::would_block, "recv queue full");
  receives_.push(work);
  ++outstanding_;
  // A peer without credits may send one more message to get new credits, but perhaps it does so late. So the
  // new credits are reported at once.
  due_ |= reported_none_;
  if (waiting_) {
    waiting_ = false;
    nak_.reset();
    received_.set(next_);
    settle();
    due_ = true;
  }
  return {};
}

Arrival Responder::on_request(const Packet& packet, Time now) {
  const Sequence s = space_.nearest(next_, packet.bth.psn);
  return config_.selective_repeat ? on_selective(packet, s, now) : on_standard_mode(packet, s);
}

// IBTA vol. 1, 9.7.5.1.3 and 9.7.4.1.2: a PSN before next_ is a duplicate and is answered again. A PSN after
// next_ shows a gap, which is reported once.
Arrival Responder::on_standard_mode(const Packet& packet, Sequence s) {
  if (s < next_) {
    replay(packet, s);
    return {Arrival::Verdict::duplicate};
  }
  if (s > next_) {
    ++counters_.out_of_order;
    if (!gap_reported_) {
      gap_reported_ = true;
      nak_ = {kSequenceError, next_};
    }
    return {Arrival::Verdict::out_of_order};
  }
  const Opcode opcode = packet.bth.opcode;
  const bool rd_atomic = opcode == Opcode::read_request || is_atomic(opcode);
  const Arrival arrival = is_send(opcode)    ? take_send(packet)
                          : is_write(opcode) ? take_write(packet)
                          : rd_atomic        ? take_rd_atomic(packet)
                                             : refuse(kInvalidRequest, FailureCause::local_invalid_request);
  if (arrival.verdict != Arrival::Verdict::accepted) return arrival;
  ++next_;
  gap_reported_ = false;
  nak_.reset();
  // A READ or an atomic needs no acknowledgement here, because its response answers it.
  wanted_ |= packet.bth.ack_request && !rd_atomic;
  return arrival;
}

Arrival Responder::on_selective(const Packet& packet, Sequence s, Time now) {
  if (s >= next_ + static_cast<Sequence>(kWindowPackets)) return {Arrival::Verdict::ignored};
  newest_ = s;
  newest_at_ = now;
  if (s < next_ || received_.test(s)) {
    replay(packet, s);
    return {Arrival::Verdict::duplicate};
  }
  const bool in_order = s == next_;
  if (!in_order) {
    ++counters_.out_of_order;
    wanted_ = true;
  }
  Arrival arrival;
  if (is_x_write(packet.bth.opcode)) {
    arrival = take_x_write(packet, s, in_order);
  } else if (!in_order) {
    return {Arrival::Verdict::out_of_order};
  } else if (!waiting_ && (is_send(packet.bth.opcode) || packet.bth.opcode == Opcode::read_request ||
                           is_atomic(packet.bth.opcode))) {
    arrival = is_send(packet.bth.opcode) ? take_send(packet) : take_rd_atomic(packet);
    if (arrival.verdict == Arrival::Verdict::accepted) {
      ++next_;
      if (end_ < next_) {
        end_ = next_;
        prediction_.on_send();
      }
      settle();
    }
  } else {
    arrival = refuse(kInvalidRequest, FailureCause::local_invalid_request);
  }
  if (arrival.verdict == Arrival::Verdict::accepted) {
    wanted_ |= packet.bth.ack_request || end_ > next_;
    count_new(now);
  }
  return arrival;
}

void Responder::complete(CompletionKind kind, std::uint32_t bytes, std::optional<std::uint32_t> immediate,
                         std::optional<RemoteKey> invalidated) {
  completions_.push({.work_id = receives_.front().work_id,
                     .kind = kind,
                     .byte_count = bytes,
                     .immediate = immediate,
                     .invalidated = invalidated});
  receives_.pop();
}

// IBTA vol. 1, 9.9.3: the peer receives the reason, and both queue pairs go to the error state.
Arrival Responder::refuse_at(Sequence at, std::uint8_t syndrome, FailureCause cause) {
  ++counters_.refused;
  nak_ = refusal_ = {syndrome, at};
  failure_ = cause;
  return {Arrival::Verdict::refused};
}

// Called when the packet at next_ needs a receive and none is posted. The RNR NAK asks the peer to send this
// packet again later. In standard mode, all packets after it are dropped until it arrives again, and cause no
// further NAK.
Arrival Responder::not_ready() {
  nak_ = {rnr_syndrome(config_.rnr_timer), next_};
  gap_reported_ = true;
  return {Arrival::Verdict::not_ready};
}

void Responder::flush(FailureCause cause) {
  // If a receive was too short, it is the oldest one.
  bool at_fault = cause == FailureCause::local_length;
  for (; !receives_.empty(); receives_.pop()) {
    completions_.push({.work_id = receives_.front().work_id,
                       .kind = CompletionKind::receive,
                       .cause = cause,
                       .flushed = !at_fault});
    at_fault = false;
  }
  prediction_.forget();
  prediction_.on_send();
}

}  // namespace rdmc::roce
