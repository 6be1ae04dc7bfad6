// What the network may hand to the packet parser. Beyond not crashing: whatever parses lies within the
// datagram, parses the same when its payload lies elsewhere, and comes out of the writers as the bytes it was
// read from.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "dataplane/roce/headers.hpp"

using namespace rdmc::roce;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

bool same(const Packet& a, const Packet& b) {
  return a.bth.opcode == b.bth.opcode && a.bth.psn == b.bth.psn && a.bth.destination == b.bth.destination &&
         a.bth.pad_bytes == b.bth.pad_bytes && a.bth.ack_request == b.bth.ack_request &&
         a.header_bytes == b.header_bytes && a.immediate == b.immediate && a.reth.address == b.reth.address &&
         a.reth.key == b.reth.key && a.reth.length == b.reth.length && a.aeth.syndrome == b.aeth.syndrome &&
         a.aeth.msn == b.aeth.msn && a.x_write.address == b.x_write.address &&
         a.atomic.address == b.atomic.address && a.atomic.key == b.atomic.key &&
         a.atomic.swap_or_add == b.atomic.swap_or_add && a.atomic.compare == b.atomic.compare &&
         a.original == b.original && a.invalidated == b.invalidated && a.x_write.key == b.x_write.key &&
         a.x_write.remaining == b.x_write.remaining && std::ranges::equal(a.payload, b.payload);
}

/// The headers written anew. Reserved bits are not kept, so the bytes may differ from those that were read.
std::vector<std::byte> rewritten(const Packet& packet) {
  std::vector<std::byte> out(packet.header_bytes);
  std::byte* at = out.data();
  at += write_bth(at, packet.bth);
  switch (packet.bth.opcode) {
    case Opcode::write_first:
    case Opcode::read_request:
    case Opcode::write_only: at += write_reth(at, packet.reth); break;
    case Opcode::write_only_immediate:
      at += write_reth(at, packet.reth);
      at += write_immediate(at, packet.immediate);
      break;
    case Opcode::send_last_immediate:
    case Opcode::send_only_immediate:
    case Opcode::write_last_immediate: at += write_immediate(at, packet.immediate); break;
    case Opcode::read_response_first:
    case Opcode::read_response_last:
    case Opcode::read_response_only:
    case Opcode::acknowledge: at += write_aeth(at, packet.aeth); break;
    case Opcode::atomic_acknowledge:
      at += write_aeth(at, packet.aeth);
      at += write_original(at, packet.original);
      break;
    case Opcode::compare_swap:
    case Opcode::fetch_add: at += write_atomic(at, packet.atomic); break;
    case Opcode::send_last_invalidate:
    case Opcode::send_only_invalidate: at += write_invalidated(at, packet.invalidated); break;
    case Opcode::congestion_notification: at += write_notification_bytes(at); break;
    case Opcode::x_write:
    case Opcode::x_write_last:
    case Opcode::x_write_last_immediate: at += write_x_write(at, packet.x_write); break;
    default: break;
  }
  require(at == out.data() + out.size());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span datagram(reinterpret_cast<const std::byte*>(data), size);
  const auto packet = parse_packet(datagram);
  if (!packet) {
    require(!name(packet.error()).empty());
    return 0;
  }
  require(packet->header_bytes + packet->payload.size() + packet->bth.pad_bytes + kIcrcBytes == size);
  require(packet->payload.data() == datagram.data() + packet->header_bytes);
  if (packet->bth.opcode == Opcode::x_acknowledge) {
    require(packet->x_ack.words <= kMaxBitmapWords);
    return 0;
  }
  const auto scattered = parse_scattered(datagram.first(packet->header_bytes), size, packet->payload);
  require(scattered.has_value() && same(*packet, *scattered));
  const auto again = parse_scattered(rewritten(*packet), size, packet->payload);
  require(again.has_value() && same(*packet, *again));
  return 0;
}
