// Makes acknowledgements and NAKs. They are collected while packets arrive, and they are sent once for each
// burst.
#include <algorithm>

#include "dataplane/base/bytes.hpp"
#include "dataplane/roce/credits.hpp"
#include "dataplane/roce/responder.hpp"
#include "dataplane/roce/rnr.hpp"

namespace rdmc::roce {

void Responder::count_new(Time now) {
  if (unanswered_++ == 0) first_unanswered_ = now;
}

void Responder::end_of_burst() {
  due_ |= wanted_ || unanswered_ >= kAckEveryPackets;
}

Time Responder::next_deadline() const {
  if (notify_) return Time{};
  if (is_responding() && !(due_ && config_.selective_repeat)) return next_response_;
  if (due_) return Time{};
  return unanswered_ > 0 ? first_unanswered_ + kDelayedAck : Time::never();
}

void Responder::repeat_refusal() {
  if (failure_ != FailureCause::none) nak_ = refusal_;
}

std::size_t Responder::transmit(Time now, std::span<TxPacket> out, const Egress& egress) {
  std::size_t count = 0;
  if (notify_ && count < out.size()) write_notification(out[count++]);
  if (is_responding()) {
    // A selective acknowledgement is sent before responses, because the peer needs it soon. The peer is an
    // endpoint of rdmc, so it knows that this acknowledgement does not cover the responses.
    const bool ahead = config_.selective_repeat && due_ && failure_ == FailureCause::none;
    if (ahead && count < out.size()) write_acknowledgement(now, egress, out[count++]);
    count += respond(now, out.subspan(count));
    if (is_responding()) return count;
  }
  if (nak_ && count < out.size()) write_nak(out[count++]);
  if (failure_ != FailureCause::none) return count;
  // A foreign requester gets its answer at once. For a peer with selective repeat, one answer to the whole
  // burst contains more information.
  const bool now_due = due_ || (!config_.selective_repeat && wanted_) || next_deadline() <= now;
  if (now_due && count < out.size()) write_acknowledgement(now, egress, out[count++]);
  return count;
}

void Responder::on_mark(Time now) {
  if (now < next_notification_) return;
  notify_ = true;
  next_notification_ = now + kNotificationInterval;
}

// IBTA Annex A17.9.3: a notification has no PSN and gets no answer. NICs clear the migration bit in it.
void Responder::write_notification(TxPacket& out) {
  const std::size_t used = write_bth(out.header.data(), {.opcode = Opcode::congestion_notification,
                                                         .migration = false,
                                                         .becn = true,
                                                         .destination = config_.remote_qpn});
  out.header_bytes = static_cast<std::uint8_t>(used + write_notification_bytes(out.header.data() + used));
  out.pad_bytes = 0;
  out.bulk = out.extended_write = false;
  out.payload = {};
  notify_ = false;
  ++counters_.packets_sent;
  ++counters_.notifications_sent;
}

void Responder::write_nak(TxPacket& out) {
  const std::size_t used = write_bth(
      out.header.data(),
      {.opcode = Opcode::acknowledge, .destination = config_.remote_qpn, .psn = space_.psn(nak_->at)});
  write_aeth(out.header.data() + used, {.syndrome = nak_->syndrome, .msn = msn_});
  out.header_bytes = kBthBytes + kAethBytes;
  out.pad_bytes = 0;
  out.bulk = out.extended_write = false;
  out.payload = {};
  if (nak_->syndrome == kSequenceError)
    ++counters_.sequence_naks_sent;
  else if (kind_of(nak_->syndrome) == AethKind::receiver_not_ready)
    ++counters_.rnr_naks_sent;
  nak_.reset();
  ++counters_.packets_sent;
  // The NAK acknowledges everything before it. With selective repeat, an acknowledgement is still needed for
  // the packets after it.
  if (!config_.selective_repeat) wanted_ = due_ = false;
}

void Responder::write_acknowledgement(Time now, const Egress& egress, TxPacket& out) {
  const bool selective = config_.selective_repeat;
  std::size_t used =
      write_bth(out.header.data(), {.opcode = selective ? Opcode::x_acknowledge : Opcode::acknowledge,
                                    .destination = config_.remote_qpn,
                                    .psn = space_.psn(next_ - 1)});
  used += write_aeth(out.header.data() + used, {.syndrome = acknowledge_syndrome(), .msn = msn_});
  out.payload = {};
  if (selective) {
    const auto words = static_cast<std::size_t>(std::max<Sequence>(end_ - next_ + 31, 0) / 32);
    const Duration waited = now - newest_at_ + egress.wait;
    const std::int64_t delay = std::clamp<std::int64_t>(waited.ns, 0, 0xFFFF'FFFF);
    used += write_x_ack(out.header.data() + used, {.newest = space_.psn(newest_),
                                                   .delay_ns = static_cast<std::uint32_t>(delay),
                                                   .arrival_ns = static_cast<std::uint32_t>(newest_at_.ns),
                                                   .words = static_cast<std::uint8_t>(words)});
    std::array<std::byte, kMaxBitmapWords* 4>& bitmap = bitmaps_[next_bitmap_++ % kAnswers];
    for (std::size_t w = 0; w < words; ++w)
      store_be(bitmap.data() + 4 * w, received_.word32(next_ + static_cast<Sequence>(32 * w)));
    out.payload = std::span(bitmap).first(4 * words);
  }
  out.header_bytes = static_cast<std::uint8_t>(used);
  out.pad_bytes = 0;
  out.bulk = out.extended_write = false;
  ++counters_.packets_sent;
  wanted_ = due_ = false;
  unanswered_ = 0;
  reported_none_ = config_.end_to_end_credits && receives_.empty();
}

std::uint8_t Responder::acknowledge_syndrome() const {
  return config_.end_to_end_credits ? credit_code(receives_.size()) : kAckSyndrome;
}

}  // namespace rdmc::roce
