// Writes the headers of a parsed packet with the product's own functions.
#pragma once

#include <vector>

#include "dataplane/roce/headers.hpp"
#include "tests/fuzz/input.hpp"

namespace rdmc::fuzz {

/// Writes the BTH and the extension headers. Reserved bits are lost, so the bytes may differ from those that
/// were parsed.
inline std::vector<std::byte> write_headers(const roce::Packet& packet) {
  using roce::Opcode;
  std::vector<std::byte> out(64 + std::size_t{packet.x_ack.words} * 4);
  std::byte* at = out.data();
  at += roce::write_bth(at, packet.bth);
  switch (packet.bth.opcode) {
    case Opcode::write_first:
    case Opcode::read_request:
    case Opcode::write_only: at += roce::write_reth(at, packet.reth); break;
    case Opcode::write_only_immediate:
      at += roce::write_reth(at, packet.reth);
      at += roce::write_immediate(at, packet.immediate);
      break;
    case Opcode::send_last_immediate:
    case Opcode::send_only_immediate:
    case Opcode::write_last_immediate: at += roce::write_immediate(at, packet.immediate); break;
    case Opcode::read_response_first:
    case Opcode::read_response_last:
    case Opcode::read_response_only:
    case Opcode::acknowledge: at += roce::write_aeth(at, packet.aeth); break;
    case Opcode::atomic_acknowledge:
      at += roce::write_aeth(at, packet.aeth);
      at += roce::write_original(at, packet.original);
      break;
    case Opcode::compare_swap:
    case Opcode::fetch_add: at += roce::write_atomic(at, packet.atomic); break;
    case Opcode::send_last_invalidate:
    case Opcode::send_only_invalidate: at += roce::write_invalidated(at, packet.invalidated); break;
    case Opcode::congestion_notification: at += roce::write_notification_bytes(at); break;
    case Opcode::x_write:
    case Opcode::x_write_last:
    case Opcode::x_write_last_immediate: at += roce::write_x_write(at, packet.x_write); break;
    case Opcode::x_acknowledge:
      at += roce::write_aeth(at, packet.aeth);
      at += roce::write_x_ack(at, packet.x_ack);
      at = std::copy_n(packet.x_ack.bitmap, std::size_t{packet.x_ack.words} * 4, at);
      break;
    default: break;
  }
  out.resize(static_cast<std::size_t>(at - out.data()));
  return out;
}

}  // namespace rdmc::fuzz
