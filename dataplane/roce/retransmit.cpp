// Decides which packets count as lost: because later packets have arrived, because of a NAK, or because no
// answer arrives. Also decides how long packets are held back after an RNR NAK.
#include <algorithm>
#include <utility>

#include "dataplane/roce/requester.hpp"
#include "dataplane/roce/rnr.hpp"

namespace rdmc::roce {

void Requester::append_in_flight(Index i) {
  slots_[i].previous = newest_;
  slots_[i].next = kNone;
  if (newest_ == kNone)
    oldest_ = i;
  else
    slots_[newest_].next = i;
  newest_ = i;
}

void Requester::remove_in_flight(Index i) {
  const PacketSlot& packet = slots_[i];
  if (packet.previous == kNone)
    oldest_ = packet.next;
  else
    slots_[packet.previous].next = packet.next;
  if (packet.next == kNone)
    newest_ = packet.previous;
  else
    slots_[packet.next].previous = packet.previous;
}

void Requester::mark_lost(Sequence s) {
  PacketSlot& packet = slot(s);
  if (packet.state == PacketState::lost) return;
  if (packet.state == PacketState::in_flight) {
    remove_in_flight(index(s));
    in_flight_ -= packet.charge;
  } else if (packet.state == PacketState::acknowledged) {
    acknowledged_.clear(s);
  }
  packet.state = PacketState::lost;
  lost_.set(s);
  ++lost_count_;
}

// RACK (RFC 8985). The list is in order of transmission, so lost packets are at its head. A packet counts as
// lost if one of two conditions is met. First, the peer has received enough packets that were sent later.
// This finds losses while trains follow each other. Second, the peer has received a packet that was sent more
// than a round trip later. This finds losses if only a probe was sent later.
void Requester::detect_losses() {
  std::uint32_t found = 0;
  while (oldest_ != kNone) {
    const PacketSlot& packet = slots_[oldest_];
    const bool by_count = packet.order + reorder_ <= arrived_order_;
    const bool by_time = packet.order < arrived_order_ && packet.sent_at + rtt_.smoothed() < arrived_sent_at_;
    if (!by_count && !by_time) break;
    mark_lost(sequence_at(oldest_));
    ++found;
  }
  if (found > 0) congestion_.on_loss(found);
}

// In go-back-N, the responder keeps no packet after a gap, so all packets in flight are sent again. Missing
// responses are requested again.
void Requester::go_back() {
  while (oldest_ != kNone) mark_lost(sequence_at(oldest_));
  if (!requests_.empty()) mark_lost(unanswered());
}

// The answer to a probe may belong to the first transmission of the probe's packet. So it gives no
// information about the packets after it. If the last packets of a message are lost and each of them were
// probed, each would cost a timeout. Therefore, if only probes are answered from one expiry to the next, all
// packets without an answer for longer than a round trip count as lost.
void Requester::give_up_on_silent(Duration waited, Time now) {
  const Duration least = kMinimumTimeout + congestion_.link_time();
  const Duration silence = std::max(waited, rtt_.measured() ? rtt_.timeout(least) : least);
  std::uint32_t found = 0;
  for (; oldest_ != kNone && slots_[oldest_].sent_at + silence <= now; ++found)
    mark_lost(sequence_at(oldest_));
  congestion_.on_loss(found);
}

Duration Requester::patience() const {
  return config_.ack_timeout * (config_.retry_limit + 1);
}

/// The longest timeout. It is the ack timeout in standard mode, and on paths whose answers arrive sooner than
/// that. A path may be longer, or its queues may be. If the timeout were limited to the ack timeout there,
/// each packet would be sent again before its answer can arrive, and no answer would measure the round trip.
/// So the limit is higher until a round trip has been measured, and if the measured one is long. But unless
/// the ack timeout is longer, the limit is at most kMostTimeout and a quarter of patience().
Duration Requester::longest_timeout() const {
  if (!config_.selective_repeat) return config_.ack_timeout;
  const Duration most = std::min(patience() / 4, kMostTimeout);
  return std::max(config_.ack_timeout, rtt_.measured() ? std::min(rtt_.timeout({}) * 2, most) : most);
}

/// The least timeout. A probe costs only one packet, so the timeout before a probe may be short. But a probe
/// of a READ requests all responses again, so the timeout before such a probe must be long. On a slow link,
/// packets in flight take longer, so the timeout is longer.
Duration Requester::least_timeout() const {
  if (!config_.selective_repeat) return kStandardMinimumTimeout;
  const Duration link = congestion_.link_time();
  const bool may_probe = expiries_ == 0 && rtt_.measured() && requests_.empty();
  if (!may_probe) return kMinimumTimeout + link;
  return kMinimumProbeTimeout + (unasked_ > 0 ? kDelayedAck : Duration{}) + link / 2;
}

Duration Requester::timeout() const {
  const bool may_probe = config_.selective_repeat && requests_.empty();
  const Duration first = may_probe ? kInitialTimeout : kStandardInitialTimeout;
  const Duration least = std::max(rtt_.measured() ? least_timeout() : first, config_.minimum_timeout);
  // The usual timeout is limited before it is doubled, too, because a host that was frozen for a day measures
  // a round trip of a day.
  const Duration usual = std::min(rtt_.measured() ? rtt_.timeout(least) : least, longest_timeout());
  const Duration doubled = usual * (std::int64_t{1} << std::min(backoff_, 16U));
  return std::min({doubled, longest_timeout(), patience() - silence_});
}

Time Requester::next_deadline() const {
  if (resume_) return *resume_;
  if (una_ == next_ || config_.ack_timeout.ns == 0) return Time::never();
  return timer_start_ + timeout();
}

// The time without an answer is counted in timeouts, and not by the clock. If this process itself got no CPU
// for a long time, this counts as one timeout. The answers that have arrived in this time are handled before
// the timer expires again.
FailureCause Requester::on_timer(Time now) {
  if (now < next_deadline() || una_ == next_) return FailureCause::none;
  if (resume_) {
    resume_.reset();
    return FailureCause::none;
  }
  const Duration waited = timeout();
  silence_ = silence_ + waited;
  if (silence_ >= patience()) return fail_at(una_, FailureCause::retry_exceeded);
  ++counters_.timeouts;
  const bool only_probes_were_answered = std::exchange(only_probes_answered_, true) && expiries_ == 0;
  ++backoff_;
  ++expiries_;
  // With selective repeat, two kinds of expiries do not shrink the window. The first expiry in a row only
  // shows that the last packets were lost. An expiry before a round trip has been measured may be too early.
  // In go-back-N every expiry shrinks the window, because a full queue costs go-back-N more.
  if ((expiries_ > 1 && rtt_.measured()) || !config_.selective_repeat) congestion_.on_timeout();
  timer_start_ = now;
  probe_ = true;
  asked_again_ = false;
  // Selective repeat sends one packet first. Its answer shows which other packets are missing.
  if (config_.selective_repeat) {
    mark_lost(una_);
    if (only_probes_were_answered) give_up_on_silent(waited, now);
  } else {
    go_back();
  }
  return FailureCause::none;
}

FailureCause Requester::receiver_not_ready(Sequence s, std::uint8_t syndrome, Time now) {
  ++counters_.rnr_naks_received;
  if (resume_) return FailureCause::none;  // The same NAK arrived twice.
  if (s != refused_) {
    refused_ = s;
    refusals_ = 0;
    first_refusal_ = now;
  }
  constexpr std::uint8_t kUncounted = 7;
  const bool too_often = config_.rnr_retry_limit != kUncounted && refusals_++ >= config_.rnr_retry_limit;
  const bool too_long = config_.rnr_patience.ns != 0 && now - first_refusal_ >= config_.rnr_patience;
  if (too_often || too_long) return fail_at(s, FailureCause::rnr_retry_exceeded);
  if (config_.selective_repeat)
    mark_lost(s);
  else
    go_back();
  silence_ = {};
  expiries_ = backoff_ = 0;
  resume_ = timer_start_ = now + rnr_delay(syndrome);
  return FailureCause::none;
}

}  // namespace rdmc::roce
