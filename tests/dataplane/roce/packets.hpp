// Well-formed datagrams for tests, one for each opcode. A seeded generator chooses the values, and the
// functions of headers.hpp write them.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "dataplane/base/bytes.hpp"
#include "dataplane/base/random.hpp"
#include "dataplane/roce/headers.hpp"
#include "tests/dataplane/roce/opcodes.hpp"

namespace rdmc::roce::testing {

inline bool has_reth(Opcode o) {
  return o == Opcode::write_first || o == Opcode::write_only || o == Opcode::write_only_immediate ||
         o == Opcode::read_request;
}
inline bool has_aeth(Opcode o) {
  return is_answer(o) && o != Opcode::read_response_middle;
}
inline bool has_invalidated(Opcode o) {
  return o == Opcode::send_last_invalidate || o == Opcode::send_only_invalidate;
}
inline bool has_payload(Opcode o) {
  return is_read_response(o) || (!is_answer(o) && !is_atomic(o) && o != Opcode::read_request &&
                                 o != Opcode::congestion_notification);
}
inline bool has_immediate(Opcode o) {
  return o == Opcode::send_last_immediate || o == Opcode::send_only_immediate ||
         o == Opcode::write_last_immediate || o == Opcode::write_only_immediate;
}

/// The values that were written. Tests compare them with the values that the parser returns.
struct Sample {
  Bth bth;
  Reth reth;
  Aeth aeth;
  XWrite x_write;
  XAck x_ack;
  AtomicEth atomic;
  std::uint64_t original = 0;
  RemoteKey invalidated{};
  std::uint32_t immediate = 0;
  std::size_t header_bytes = 0;
  std::vector<std::byte> payload;
  std::vector<std::byte> bitmap;
  std::vector<std::byte> datagram;  ///< The last four bytes are zero, in place of the ICRC.
};

inline std::vector<std::byte> random_bytes(Random& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

inline Sample make_sample(Opcode opcode, std::size_t payload_bytes, Random& random) {
  const auto u8 = [&] { return static_cast<std::uint8_t>(random.next()); };
  const auto u32 = [&] { return static_cast<std::uint32_t>(random.next()); };
  const auto flag = [&] { return random.below(2) == 1; };
  if (!has_payload(opcode)) payload_bytes = 0;

  Sample s;
  s.payload = random_bytes(random, payload_bytes);
  s.bth = Bth{.opcode = opcode,
              .solicited = flag(),
              .migration = flag(),
              .ack_request = flag(),
              .fecn = flag(),
              .becn = flag(),
              .pad_bytes = static_cast<std::uint8_t>(-payload_bytes & 3),
              .partition_key = static_cast<std::uint16_t>(flag() ? 0xFFFF : 0x7FFF),
              .destination = Qpn{u32() & 0xFF'FFFF},
              .psn = Psn(u32())};
  std::array<std::byte, 64> out{};
  std::size_t at = write_bth(out.data(), s.bth);
  if (has_reth(opcode)) {
    s.reth = {.address = random.next(), .key = RemoteKey{u32()}, .length = u32()};
    at += write_reth(out.data() + at, s.reth);
  }
  if (has_aeth(opcode)) {
    s.aeth = {.syndrome = u8(), .msn = u32() & 0xFF'FFFF};
    at += write_aeth(out.data() + at, s.aeth);
  }
  if (is_atomic(opcode)) {
    s.atomic = {random.next(), RemoteKey{u32()}, random.next(), random.next()};
    at += write_atomic(out.data() + at, s.atomic);
  }
  if (opcode == Opcode::atomic_acknowledge) {
    s.original = random.next();
    at += write_original(out.data() + at, s.original);
  }
  if (has_invalidated(opcode)) {
    s.invalidated = RemoteKey{u32()};
    at += write_invalidated(out.data() + at, s.invalidated);
  }
  if (opcode == Opcode::congestion_notification) at += write_notification_bytes(out.data() + at);
  if (has_immediate(opcode)) {
    s.immediate = u32();
    at += write_immediate(out.data() + at, s.immediate);
  }
  if (is_x_write(opcode)) {
    s.immediate = u32();
    const auto rest = static_cast<std::uint32_t>(opcode == Opcode::x_write ? random.between(1, 1 << 30) : 0);
    s.x_write = {.address = random.next(),
                 .key = RemoteKey{u32()},
                 .immediate = s.immediate,
                 .remaining = static_cast<std::uint32_t>(payload_bytes) + rest,
                 .identification = static_cast<std::uint16_t>(random.next()),
                 .begins_unordered = flag()};
    at += write_x_write(out.data() + at, s.x_write);
  }
  if (opcode == Opcode::x_acknowledge) {
    s.x_ack = {.newest = Psn(u32()),
               .delay_ns = u32(),
               .arrival_ns = u32(),
               .words = static_cast<std::uint8_t>(random.below(kMaxBitmapWords + 1))};
    at += write_x_ack(out.data() + at, s.x_ack);
    s.bitmap = random_bytes(random, s.x_ack.words * std::size_t{4});
  }
  auto& datagram = s.datagram;
  s.header_bytes = at + s.bitmap.size();
  // The capacity has the exact size, so that the address sanitizer finds every access beyond it.
  datagram.reserve(s.header_bytes + payload_bytes + s.bth.pad_bytes + kIcrcBytes);
  datagram.assign(out.begin(), out.begin() + at);
  datagram.insert(datagram.end(), s.bitmap.begin(), s.bitmap.end());
  datagram.insert(datagram.end(), s.payload.begin(), s.payload.end());
  datagram.insert(datagram.end(), s.bth.pad_bytes + kIcrcBytes, std::byte{0});
  return s;
}

}  // namespace rdmc::roce::testing
