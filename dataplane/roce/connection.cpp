#include "dataplane/roce/connection.hpp"

#include <algorithm>

#include "dataplane/roce/requester.hpp"
#include "dataplane/roce/responder.hpp"

namespace rdmc::roce {

struct Connection::Impl {
  Impl(const ConnectionConfig& c, RegionTable& table)
      : config(c),
        regions(table),
        completions(c.send_depth + c.receive_depth),
        requester(config, completions, counters),
        responder(config, table, completions, counters) {}

  // Completes all work requests of the requester first, and then all receives, each in the order posted.
  void fail(FailureCause reason) {
    if (cause != FailureCause::none || reason == FailureCause::none) return;
    cause = reason;
    requester.flush(reason);
    responder.flush(reason);
  }
  bool failed() const { return cause != FailureCause::none; }

  // From now on valid bytes are in this memory, so no connection may expect a write there any more. Therefore
  // all claims on the memory end. For X_WRITEs, Prediction has already ended the claims.
  Arrival placed(const Arrival& arrival, const Packet& packet) {
    if (arrival.destination != nullptr && !is_x_write(packet.bth.opcode))
      regions.claims().end_within({arrival.destination, packet.payload.size()});
    return arrival;
  }

  const ConnectionConfig config;
  RegionTable& regions;
  ConnectionCounters counters;
  FixedRing<WorkCompletion> completions;
  Requester requester;
  Responder responder;
  FailureCause cause = FailureCause::none;
};

Connection::Connection(const ConnectionConfig& config, RegionTable& regions)
    : impl_(std::make_unique<Impl>(config, regions)) {}
Connection::~Connection() = default;
Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;

Result<void> Connection::post_send(const SendWork& work) {
  if (impl_->failed()) return rdmc::fail(Errc::peer_failed, "in error state");
  return impl_->requester.post(work);
}

Result<void> Connection::post_read(const ReadWork& work) {
  if (impl_->failed()) return rdmc::fail(Errc::peer_failed, "in error state");
  return impl_->requester.post_read(work);
}

Result<void> Connection::post_atomic(const AtomicWork& work) {
  if (impl_->failed()) return rdmc::fail(Errc::peer_failed, "in error state");
  return impl_->requester.post_atomic(work);
}

Result<void> Connection::post_receive(const ReceiveWork& work) {
  if (impl_->failed()) return rdmc::fail(Errc::peer_failed, "in error state");
  auto posted = impl_->responder.post(work);
  impl_->fail(impl_->responder.failure());
  return posted;
}

Arrival Connection::on_packet(const Packet& packet, Time now, bool congestion_experienced) {
  Impl& self = *impl_;
  ++self.counters.packets_received;
  const bool answer = is_answer(packet.bth.opcode);
  if (self.failed()) {
    if (!answer && packet.bth.opcode != Opcode::congestion_notification) self.responder.repeat_refusal();
    ++self.counters.ignored;
    return {};
  }
  if (congestion_experienced) self.responder.on_mark(now);
  if (answer) {
    if (packet.bth.opcode == Opcode::x_acknowledge && !self.config.selective_repeat) {
      ++self.counters.ignored;
      return {};
    }
    const bool acknowledgement =
        packet.bth.opcode == Opcode::acknowledge || packet.bth.opcode == Opcode::x_acknowledge;
    if (acknowledgement) {
      self.fail(self.requester.on_acknowledge(packet, now));
      return {Arrival::Verdict::accepted};
    }
    Arrival arrival;
    self.fail(self.requester.on_response(packet, now, arrival));
    return self.placed(arrival, packet);
  }
  if (packet.bth.opcode == Opcode::congestion_notification) {
    ++self.counters.notifications_received;
    self.requester.on_notification(now);
    self.responder.on_notification(now);
    return {Arrival::Verdict::accepted};
  }
  const Arrival arrival = self.responder.on_request(packet, now);
  if (arrival.verdict == Arrival::Verdict::not_ready) ++self.counters.not_ready;
  if (arrival.verdict == Arrival::Verdict::ignored) ++self.counters.ignored;
  self.fail(self.responder.failure());
  return self.placed(arrival, packet);
}

void Connection::on_timer(Time now) {
  if (!impl_->failed()) impl_->fail(impl_->requester.on_timer(now));
}

std::size_t Connection::poll_transmit(Time now, std::span<TxPacket> out, const Egress& egress) {
  Impl& self = *impl_;
  // After a failure only the NAK that reports it to the peer is still sent.
  if (self.failed() && self.responder.failure() == FailureCause::none) return 0;
  // While a long READ of the peer is answered, half of `out` is kept for this side's own requests.
  std::size_t count = 0;
  if (self.responder.is_responding() && !self.failed())
    count = self.requester.transmit(now, out.first(out.size() / 2), egress);
  count += self.responder.transmit(now, out.subspan(count), egress);
  self.fail(self.responder.failure());
  return self.failed() ? count : count + self.requester.transmit(now, out.subspan(count), egress);
}

std::size_t Connection::poll_answers(Time now, std::span<TxPacket> out, const Egress& egress) {
  Impl& self = *impl_;
  if (self.failed() || self.responder.is_responding()) return 0;
  return self.responder.transmit(now, out, egress);
}

std::optional<std::uint64_t> Connection::next_to_leave() const {
  if (impl_->failed() || impl_->responder.is_responding()) return std::nullopt;
  return impl_->requester.next_to_leave();
}

std::size_t Connection::packets_through(std::uint64_t work) const {
  return impl_->requester.packets_through(work);
}

bool Connection::has_answer() const {
  return impl_->responder.has_answer();
}

bool Connection::poll_completion(WorkCompletion& out) {
  if (impl_->completions.empty()) return false;
  out = impl_->completions.front();
  impl_->completions.pop();
  if (out.kind == CompletionKind::receive || out.kind == CompletionKind::receive_write_immediate)
    impl_->responder.release();
  else
    impl_->requester.release();
  return true;
}

Time Connection::next_deadline() const {
  if (impl_->failed()) return Time::never();
  return std::min(impl_->requester.next_deadline(), impl_->responder.next_deadline());
}

void Connection::end_of_burst(Time) {
  impl_->responder.end_of_burst();
}

std::size_t Connection::predict(std::span<std::span<std::byte>> out, std::size_t skip_packets,
                                bool for_others) {
  if (impl_->failed() || !impl_->config.selective_repeat) return 0;
  return impl_->responder.prediction().predict(out, skip_packets, for_others);
}

void Connection::expect_write(RemoteKey key, std::uint64_t remote_address, std::uint32_t bytes) {
  if (!impl_->failed() && impl_->config.selective_repeat) impl_->responder.expect(key, remote_address, bytes);
}

void Connection::close() {
  impl_->fail(FailureCause::closed);
}

bool Connection::failed() const {
  return impl_->failed();
}
FailureCause Connection::cause() const {
  return impl_->cause;
}
const ConnectionCounters& Connection::counters() const {
  return impl_->counters;
}

ConnectionCounters& ConnectionCounters::operator+=(const ConnectionCounters& other) {
  packets_sent += other.packets_sent;
  packets_received += other.packets_received;
  payload_bytes_sent += other.payload_bytes_sent;
  payload_bytes_received += other.payload_bytes_received;
  retransmitted += other.retransmitted;
  timeouts += other.timeouts;
  duplicates += other.duplicates;
  out_of_order += other.out_of_order;
  ghosts += other.ghosts;
  stale += other.stale;
  implied_naks += other.implied_naks;
  sequence_naks_sent += other.sequence_naks_sent;
  sequence_naks_received += other.sequence_naks_received;
  rnr_naks_sent += other.rnr_naks_sent;
  rnr_naks_received += other.rnr_naks_received;
  notifications_sent += other.notifications_sent;
  notifications_received += other.notifications_received;
  refused += other.refused;
  refusals_received += other.refusals_received;
  not_ready += other.not_ready;
  ignored += other.ignored;
  return *this;
}

}  // namespace rdmc::roce
