// Handles the packet at next_ if it belongs to a SEND or a standard-mode WRITE. The checks are those of IBTA
// vol. 1, 9.7.4.1: opcode sequence, length, key, resources. For a WRITE, the checks are made in this order.
#include "dataplane/roce/responder.hpp"
#include "dataplane/roce/rnr.hpp"

namespace rdmc::roce {
namespace {

// The order of the opcodes within SEND and within WRITE (IBTA table 38).
enum class Segment : std::uint8_t { first, middle, last, last_immediate, only, only_immediate };

Segment segment_of(Opcode opcode) {
  if (opcode == Opcode::send_last_invalidate) return Segment::last;
  if (opcode == Opcode::send_only_invalidate) return Segment::only;
  const std::uint8_t base = value_of(opcode < Opcode::write_first ? Opcode::send_first : Opcode::write_first);
  return static_cast<Segment>(value_of(opcode) - base);
}
bool starts(Segment segment) {
  return segment == Segment::first || segment >= Segment::only;
}
bool invalidates(Opcode opcode) {
  return opcode == Opcode::send_last_invalidate || opcode == Opcode::send_only_invalidate;
}
bool ends(Segment segment) {
  return segment >= Segment::last;
}
bool with_immediate(Segment segment) {
  return segment == Segment::last_immediate || segment == Segment::only_immediate;
}

}  // namespace

bool Responder::well_formed(const Packet& packet, Message message) const {
  const Segment segment = segment_of(packet.bth.opcode);
  if (message_ != (starts(segment) ? Message::none : message)) return false;
  const std::size_t bytes = packet.payload.size();
  if (!ends(segment)) return bytes == config_.path_mtu;
  return bytes <= config_.path_mtu && (starts(segment) || bytes > 0);
}

Arrival Responder::take_send(const Packet& packet) {
  if (!well_formed(packet, Message::send))
    return refuse(kInvalidRequest, FailureCause::local_invalid_request);
  const Segment segment = segment_of(packet.bth.opcode);
  if (starts(segment) && receives_.empty()) return not_ready();
  const std::span<std::byte> receive = receives_.front().bytes;
  const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
  const std::uint32_t offset = starts(segment) ? 0 : message_bytes_;
  if (bytes > receive.size() - offset) return refuse(kInvalidRequest, FailureCause::local_length);

  const bool invalidate = invalidates(packet.bth.opcode);
  if (invalidate && !regions_.invalidate(packet.invalidated, config_.key_holder))
    return refuse(kRemoteAccess, FailureCause::local_access);

  counters_.payload_bytes_received += bytes;
  message_ = Message::send;
  message_bytes_ = offset + bytes;
  if (ends(segment)) {
    complete(CompletionKind::receive, message_bytes_,
             with_immediate(segment) ? std::optional(packet.immediate) : std::nullopt,
             invalidate ? std::optional(packet.invalidated) : std::nullopt);
    message_ = Message::none;
    msn_ = (msn_ + 1) & Psn::kMask;
  }
  return {Arrival::Verdict::accepted, bytes > 0 ? receive.data() + offset : nullptr};
}

Arrival Responder::take_write(const Packet& packet) {
  if (!well_formed(packet, Message::write))
    return refuse(kInvalidRequest, FailureCause::local_invalid_request);
  const Segment segment = segment_of(packet.bth.opcode);
  const bool first = starts(segment), last = ends(segment);
  const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
  const RemoteKey key = first ? packet.reth.key : write_key_;
  const std::uint64_t address = first ? packet.reth.address : write_address_;
  const std::uint32_t rest = first ? packet.reth.length : write_rest_;
  if (last ? rest != bytes : rest <= bytes)
    return refuse(kInvalidRequest, FailureCause::local_invalid_request);
  // A WRITE of no bytes names no memory (C9-88). The whole range is checked at the first packet, so that a
  // WRITE with a bad range places nothing.
  std::byte* destination = nullptr;
  if (bytes > 0) {
    destination =
        regions_.resolve(key, address, first ? rest : bytes, RemoteAccess::write, config_.key_holder);
    if (destination == nullptr) return refuse(kRemoteAccess, FailureCause::local_access);
  }
  if (with_immediate(segment) && receives_.empty()) return not_ready();

  counters_.payload_bytes_received += bytes;
  write_key_ = key;
  write_address_ = address + bytes;
  write_rest_ = rest - bytes;
  message_bytes_ = (first ? 0 : message_bytes_) + bytes;
  message_ = last ? Message::none : Message::write;
  if (last) {
    msn_ = (msn_ + 1) & Psn::kMask;
    if (with_immediate(segment))
      complete(CompletionKind::receive_write_immediate, message_bytes_, packet.immediate);
  }
  return {Arrival::Verdict::accepted, destination};
}

}  // namespace rdmc::roce
