// Selects the packets that leave now, and writes their headers.
#include <algorithm>
#include <cassert>

#include "dataplane/roce/requester.hpp"

namespace rdmc::roce {
namespace {

bool is_write(SendOpcode opcode) {
  return opcode == SendOpcode::write || opcode == SendOpcode::write_immediate;
}
bool has_immediate(SendOpcode opcode) {
  return opcode == SendOpcode::send_immediate || opcode == SendOpcode::write_immediate;
}

// IBTA table 38: the opcodes FIRST, MIDDLE, LAST, LAST with immediate, ONLY, ONLY with immediate follow each
// other. The two opcodes of SEND with invalidate are not part of this sequence.
Opcode standard_opcode(SendOpcode opcode, bool first, bool last) {
  const int base = value_of(is_write(opcode) ? Opcode::write_first : Opcode::send_first);
  const int immediate = has_immediate(opcode) ? 1 : 0;
  if (opcode == SendOpcode::send_invalidate && last)
    return first ? Opcode::send_only_invalidate : Opcode::send_last_invalidate;
  const int step = first ? (last ? 4 + immediate : 0) : (last ? 2 + immediate : 1);
  return static_cast<Opcode>(base + step);
}

}  // namespace

std::uint32_t Requester::payload_bytes(const Posted& posted, Sequence s) const {
  const auto total = static_cast<std::uint32_t>(posted.work.bytes.size());
  const std::uint32_t offset = static_cast<std::uint32_t>(s - posted.first) * config_.path_mtu;
  return std::min(config_.path_mtu, total - offset);
}

bool Requester::may_fill(std::uint32_t window) const {
  if (filling_ || in_flight_ == 0) return true;
  if (in_flight_ >= window) return false;
  const std::uint64_t room = window - in_flight_;
  const auto waiting = static_cast<std::uint64_t>(assigned_ - next_);
  return room >= std::min(kBurstBytes, window / 4) ||
         waiting * std::max(config_.path_mtu, kMinimumCharge) <= room;
}

std::optional<std::uint64_t> Requester::next_to_leave() const {
  if (lost_count_ > 0) return slots_[index(lost_.first_set(una_))].work;
  if (next_ < assigned_) return next_work_;
  return std::nullopt;
}

std::size_t Requester::packets_through(std::uint64_t work) const {
  const Sequence end = works_[work].first + works_[work].packets;
  return lost_count_ + static_cast<std::size_t>(std::max<Sequence>(end - next_, 0));
}

std::size_t Requester::transmit(Time now, std::span<TxPacket> out, const Egress& egress) {
  if (resume_) {
    if (now < *resume_) return 0;
    resume_.reset();
  }
  if (lost_count_ == 0 && next_ == assigned_) return 0;
  egress_ns_ = static_cast<std::uint32_t>(std::clamp<std::int64_t>(egress.wait.ns, 0, 0xFFFF'FFFF));
  congestion_.set_link(egress.bytes_per_second);
  const std::uint32_t window = congestion_.window();
  const std::uint32_t spacing =
      std::clamp<std::uint32_t>(window / config_.path_mtu / 4, 1, kMaxPacketsPerAckRequest);
  std::size_t count = 0;

  while (lost_count_ > 0 && count < out.size()) {
    const Sequence s = lost_.first_set(una_);
    const std::uint32_t charge = slot(s).charge;
    if (in_flight_ > 0 && in_flight_ + charge > window && !probe_) return count;
    probe_ = false;
    const bool closing = lost_count_ == 1 || in_flight_ + charge + charge > window;
    send(s, closing || config_.selective_repeat || ends(s) || unasked_ + 1 >= spacing, now, out[count++]);
  }

  const Sequence limit =
      una_ + static_cast<Sequence>(config_.selective_repeat ? kWindowPackets : kStandardWindowPackets);
  if (next_ < assigned_) filling_ = may_fill(window);
  while (filling_ && next_ < assigned_ && count < out.size()) {
    const Posted& posted = works_[next_work_];
    const bool rd_atomic = is_rd_atomic(posted.work.opcode);
    const Sequence s = next_, end = rd_atomic ? request_end(posted, s) : s + 1;
    const std::uint32_t charge =
        rd_atomic ? kMinimumCharge : std::max(payload_bytes(posted, s), kMinimumCharge);
    const bool starts = rd_atomic || s == posted.first;
    if (end > limit || (in_flight_ > 0 && in_flight_ + charge > window) ||
        (rd_atomic && !may_request(posted, s, end)) ||
        (starts && !credits_.may_start(consumes_receive(posted.work.opcode)))) {
      filling_ = false;
      break;
    }
    if (starts) credits_.on_start(consumes_receive(posted.work.opcode));
    if (s == una_) timer_start_ = now;
    slot(s) = {.work = next_work_, .charge = charge};
    if (rd_atomic) begin_request(posted, s, end);
    next_ = end;
    if (next_ == posted.first + posted.packets) ++next_work_;
    const bool closing = next_ == assigned_ || next_ == limit ||
                         in_flight_ + charge + std::max(config_.path_mtu, kMinimumCharge) > window;
    const bool last = !config_.selective_repeat && ends(s);
    send(s, closing || last || unasked_ + 1 >= spacing, now, out[count++]);
  }
  limited_ |= next_ < assigned_;
  return count;
}

void Requester::send(Sequence s, bool ask, Time now, TxPacket& out) {
  PacketSlot& packet = slot(s);
  if (packet.transmissions > 0) {
    lost_.clear(s);
    --lost_count_;
    ++counters_.retransmitted;
  }
  if (packet.transmissions < 0xFFFF) ++packet.transmissions;
  packet.state = PacketState::in_flight;
  packet.sent_at = now;
  packet.egress_ns = egress_ns_;
  packet.order = next_order_++;
  in_flight_ += packet.charge;
  append_in_flight(index(s));
  unasked_ = ask ? 0 : unasked_ + 1;

  const Posted& posted = works_[packet.work];
  out.bulk = true;
  ++counters_.packets_sent;
  if (is_rd_atomic(posted.work.opcode)) {
    out.header_bytes = static_cast<std::uint8_t>(write_request(posted, s, ask, out));
    return;
  }
  const std::uint32_t bytes = payload_bytes(posted, s);
  out.payload =
      posted.work.bytes.subspan(static_cast<std::size_t>(s - posted.first) * config_.path_mtu, bytes);
  out.pad_bytes = static_cast<std::uint8_t>(-bytes & 3);
  out.header_bytes = static_cast<std::uint8_t>(write_header(posted, s, bytes, ask, out));
  counters_.payload_bytes_sent += bytes;
}

std::size_t Requester::write_header(const Posted& posted, Sequence s, std::uint32_t bytes, bool ack_request,
                                    TxPacket& out) {
  const SendWork& work = posted.work;
  const auto segment = static_cast<std::uint32_t>(s - posted.first);
  const bool first = segment == 0, last = segment + 1 == posted.packets, write = is_write(work.opcode);
  Bth bth{.ack_request = ack_request,
          .pad_bytes = out.pad_bytes,
          .destination = config_.remote_qpn,
          .psn = space_.psn(s)};
  std::byte* const header = out.header.data();
  const auto total = static_cast<std::uint32_t>(work.bytes.size());
  out.extended_write = write && config_.selective_repeat;
  if (out.extended_write) {
    bth.opcode = !last                        ? Opcode::x_write
                 : has_immediate(work.opcode) ? Opcode::x_write_last_immediate
                                              : Opcode::x_write_last;
    const std::uint32_t offset = segment * config_.path_mtu;
    const std::size_t used = write_bth(header, bth);
    return used + write_x_write(header + used, {.address = work.remote_address + offset,
                                                .key = work.remote_key,
                                                .immediate = work.immediate,
                                                .remaining = total - offset,
                                                .begins_unordered = first && work.unordered});
  }
  bth.opcode = standard_opcode(work.opcode, first, last);
  std::size_t used = write_bth(header, bth);
  if (write && first)
    used +=
        write_reth(header + used, {.address = work.remote_address, .key = work.remote_key, .length = total});
  if (last && has_immediate(work.opcode)) used += write_immediate(header + used, work.immediate);
  if (last && work.opcode == SendOpcode::send_invalidate)
    used += write_invalidated(header + used, work.remote_key);
  assert(used <= out.header.size() && bytes <= config_.path_mtu);
  return used;
}

}  // namespace rdmc::roce
