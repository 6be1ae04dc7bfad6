// Fuzzes the packet parser with any datagram. Besides crashes, the target checks that:
// - all parts of a parsed packet are inside the datagram,
// - the result of parsing is the same if the payload is at another address,
// - the writers produce the same bytes again.
#include <algorithm>

#include "dataplane/roce/headers.hpp"
#include "dataplane/roce/management_datagram.hpp"
#include "tests/fuzz/write_headers.hpp"

using namespace rdmc::roce;
using rdmc::fuzz::require;
using rdmc::fuzz::write_headers;

namespace {

bool same(const Packet& a, const Packet& b) {
  return a.bth.opcode == b.bth.opcode && a.bth.psn == b.bth.psn && a.bth.destination == b.bth.destination &&
         a.bth.pad_bytes == b.bth.pad_bytes && a.bth.ack_request == b.bth.ack_request &&
         a.header_bytes == b.header_bytes && a.immediate == b.immediate && a.reth.address == b.reth.address &&
         a.reth.key == b.reth.key && a.reth.length == b.reth.length && a.aeth.syndrome == b.aeth.syndrome &&
         a.aeth.msn == b.aeth.msn && a.x_write.address == b.x_write.address &&
         a.atomic.address == b.atomic.address && a.atomic.key == b.atomic.key &&
         a.atomic.swap_or_add == b.atomic.swap_or_add && a.atomic.compare == b.atomic.compare &&
         a.original == b.original && a.invalidated == b.invalidated && a.x_write.key == b.x_write.key &&
         a.x_write.remaining == b.x_write.remaining &&
         a.x_write.begins_unordered == b.x_write.begins_unordered && std::ranges::equal(a.payload, b.payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span datagram(reinterpret_cast<const std::byte*>(data), size);
  if (is_datagram_send(datagram)) {
    const auto mad = parse_management(datagram);
    require(mad ? mad->data() == datagram.data() + kManagementHeaderBytes : !name(mad.error()).empty());
  }
  const auto packet = parse_packet(datagram);
  if (!packet) {
    require(!name(packet.error()).empty());
    return 0;
  }
  require(packet->header_bytes + packet->payload.size() + packet->bth.pad_bytes + kIcrcBytes == size);
  require(packet->payload.data() == datagram.data() + packet->header_bytes);
  const auto headers = write_headers(*packet);
  require(headers.size() == packet->header_bytes);
  if (packet->bth.opcode == Opcode::x_acknowledge) {
    require(packet->x_ack.words <= kMaxBitmapWords);
    return 0;
  }
  const auto scattered = parse_scattered(datagram.first(packet->header_bytes), size, packet->payload);
  require(scattered.has_value() && same(*packet, *scattered));
  const auto again = parse_scattered(headers, size, packet->payload);
  require(again.has_value() && same(*packet, *again));
  return 0;
}
