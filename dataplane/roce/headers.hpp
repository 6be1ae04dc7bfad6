// The headers of RoCEv2 as values, and the codec between them and bytes (IBTA vol. 1, chapter 9; sizes and
// bit layouts in docs/wire.md). Pure. `parse_packet` is what every byte from the network goes through first:
// it checks the opcode and all lengths, so that nobody after it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string_view>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

inline constexpr std::uint16_t kRocePort = 4791;
inline constexpr std::uint16_t kDefaultPartitionKey = 0xFFFF;

enum class Opcode : std::uint8_t {
  send_first = 0x00,
  send_middle = 0x01,
  send_last = 0x02,
  send_last_immediate = 0x03,
  send_only = 0x04,
  send_only_immediate = 0x05,
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_last_immediate = 0x09,
  write_only = 0x0A,
  write_only_immediate = 0x0B,
  read_request = 0x0C,
  read_response_first = 0x0D,
  read_response_middle = 0x0E,
  read_response_last = 0x0F,
  read_response_only = 0x10,
  acknowledge = 0x11,
  atomic_acknowledge = 0x12,
  compare_swap = 0x13,
  fetch_add = 0x14,
  send_last_invalidate = 0x16,
  send_only_invalidate = 0x17,
  congestion_notification = 0x81,  ///< CNP (Annex A17.9.3): not of a connection's PSNs, answered by nothing
  // Our own, in the manufacturer's range, only between endpoints that both offered selective repeat.
  x_write = 0xC0,                 ///< a part of a WRITE, or all of it
  x_write_last = 0xC1,            ///< the last (or only) part of a WRITE without immediate
  x_write_last_immediate = 0xC2,  ///< … with immediate
  x_acknowledge = 0xC3,           ///< AETH + selective acknowledgement
};

inline constexpr std::size_t kBthBytes = 12, kRethBytes = 16, kAethBytes = 4, kImmediateBytes = 4,
                             kIcrcBytes = 4;
inline constexpr std::size_t kAtomicBytes = 28, kAtomicAckBytes = 8, kInvalidateBytes = 4,
                             kNotificationBytes = 16;
inline constexpr std::size_t kXWriteBytes =
    24;  ///< the same for all three, so that every packet of a train is alike
inline constexpr std::size_t kXWriteHeaderBytes = kBthBytes + kXWriteBytes;

struct Bth {
  Opcode opcode{};
  bool solicited = false, migration = true, ack_request = false, fecn = false, becn = false;
  std::uint8_t pad_bytes = 0;
  std::uint16_t partition_key = kDefaultPartitionKey;
  Qpn destination{};
  Psn psn;
};
struct Reth {
  std::uint64_t address = 0;
  RemoteKey key{};
  std::uint32_t length = 0;
};
struct Aeth {
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;
};
struct AtomicEth {
  std::uint64_t address = 0;
  RemoteKey key{};
  std::uint64_t swap_or_add = 0, compare = 0;  ///< FETCH_ADD does not look at `compare`
};
/// The flag of an XWrite that is the first packet of a message that may complete before earlier ones.
inline constexpr std::uint16_t kBeginsUnordered = 0x8000;
/// VA 8, key 4, immediate 4, bytes of the message from this packet's first to its end 4, identification 2,
/// flags 2. `identification` is the IPv4 identification that the sender computed the ICRC with.
struct XWrite {
  std::uint64_t address = 0;
  RemoteKey key{};
  std::uint32_t immediate = 0;
  std::uint32_t remaining = 0;
  std::uint16_t identification = 0;
  bool begins_unordered = false;  ///< kBeginsUnordered
};
/// Follows the AETH in x_acknowledge: newest 3, words 1, delay 4, arrival 4, then the bitmap. The BTH's PSN
/// is the last one received in order; bit i of the bitmap (word i/32, least significant first) says that PSN
/// cumulative + 1 + i has arrived.
struct XAck {
  Psn newest;                         ///< the packet that arrived last: its round trip is measured
  std::uint32_t delay_ns = 0;         ///< between that arrival and this answer
  std::uint32_t arrival_ns = 0;       ///< the low bits of that arrival's time by the receiver's clock
  std::uint8_t words = 0;             ///< of bitmap, 0 … kMaxBitmapWords
  const std::byte* bitmap = nullptr;  ///< big-endian words
};
inline constexpr std::size_t kXAckFixedBytes = 12, kMaxBitmapWords = 32;

/// A packet as parsed; spans refer to the received bytes.
struct Packet {
  Bth bth;
  Reth reth;  ///< WRITE FIRST and ONLY, READ request
  Aeth aeth;  ///< ACKs, atomic ACKs, READ response FIRST, LAST and ONLY
  AtomicEth atomic;
  std::uint64_t original = 0;  ///< atomic ACK: the value before
  RemoteKey invalidated{};     ///< SEND with invalidate
  XWrite x_write;              ///< x_write*
  XAck x_ack;                  ///< x_acknowledge
  std::uint32_t immediate = 0;
  std::span<const std::byte> payload;  ///< without pad and ICRC
  std::uint8_t header_bytes = 0;       ///< BTH and extension headers
};

enum class ParseError : std::uint8_t {
  too_short,
  bad_version,
  unknown_opcode,
  bad_length,
  bad_pad,
  bad_partition
};
std::string_view name(ParseError error) noexcept;

/// `datagram` is a UDP payload: BTH to ICRC. The ICRC is not checked here, and neither is what the responder
/// answers with a NAK: the payload's size against the path MTU and the DMA length of a RETH.
std::expected<Packet, ParseError> parse_packet(std::span<const std::byte> datagram) noexcept;

/// The header bytes alone: the same as parse_packet for a packet whose payload lies elsewhere.
/// `datagram_bytes` is the whole UDP payload's length; `payload` where those bytes lie, at least as many as
/// the packet has (pad and ICRC need not be there). x_acknowledge, whose header size varies, is an
/// unknown_opcode here.
std::expected<Packet, ParseError> parse_scattered(std::span<const std::byte> header,
                                                  std::size_t datagram_bytes,
                                                  std::span<const std::byte> payload) noexcept;

/// Whether an opcode answers requests (of the peer's responder, for our requester).
constexpr bool is_answer(Opcode opcode) {
  return (opcode >= Opcode::read_response_first && opcode <= Opcode::atomic_acknowledge) ||
         opcode == Opcode::x_acknowledge;
}
/// READ responses, without atomic ACKs.
constexpr bool is_read_response(Opcode opcode) {
  return opcode >= Opcode::read_response_first && opcode <= Opcode::read_response_only;
}
constexpr bool is_atomic(Opcode opcode) {
  return opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
}
constexpr bool is_send(Opcode opcode) {
  return opcode <= Opcode::send_only_immediate || opcode == Opcode::send_last_invalidate ||
         opcode == Opcode::send_only_invalidate;
}
constexpr bool is_write(Opcode opcode) {
  return opcode >= Opcode::write_first && opcode <= Opcode::write_only_immediate;
}
constexpr bool is_x_write(Opcode opcode) {
  return opcode >= Opcode::x_write && opcode <= Opcode::x_write_last_immediate;
}

/// Writers return the bytes written. `out` has room (56 bytes suffice for every combination without a
/// bitmap).
std::size_t write_bth(std::byte* out, const Bth& bth) noexcept;
std::size_t write_reth(std::byte* out, const Reth& reth) noexcept;
std::size_t write_aeth(std::byte* out, const Aeth& aeth) noexcept;
std::size_t write_immediate(std::byte* out, std::uint32_t immediate) noexcept;
std::size_t write_atomic(std::byte* out, const AtomicEth& atomic) noexcept;
std::size_t write_original(std::byte* out, std::uint64_t original) noexcept;
std::size_t write_invalidated(std::byte* out, RemoteKey key) noexcept;
/// The sixteen reserved bytes of a congestion notification.
std::size_t write_notification_bytes(std::byte* out) noexcept;
std::size_t write_x_write(std::byte* out, const XWrite& header) noexcept;
/// The fixed part; `words` big-endian words of bitmap follow it, or travel as the payload behind the header.
std::size_t write_x_ack(std::byte* out, const XAck& header) noexcept;
/// Sets the identification of an X_WRITE header already written at `header` (BTH first).
void set_identification(std::byte* header, std::uint16_t identification) noexcept;

}  // namespace rdmc::roce
