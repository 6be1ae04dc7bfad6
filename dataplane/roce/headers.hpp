// The headers of RoCEv2 as values, and the codec between these values and bytes (IBTA vol. 1, chapter 9;
// docs/wire.md has the sizes and bit layouts). The functions are pure. Every byte from the network goes
// through `parse_packet` or `parse_scattered` first. They check the opcode and all lengths, so that no later
// code has to check them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <string_view>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

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
  congestion_notification = 0x81,  ///< CNP (Annex A17.9.3). It has no connection's PSN and gets no answer.
  // Opcodes of rdmc in the manufacturer's range. They are used only between endpoints that both offered
  // selective repeat.
  x_write = 0xC0,                 ///< A part of a WRITE, but not the last one.
  x_write_last = 0xC1,            ///< The last (or only) part of a WRITE without immediate.
  x_write_last_immediate = 0xC2,  ///< The last (or only) part of a WRITE with immediate.
  x_acknowledge = 0xC3,           ///< An AETH and a selective acknowledgement.
};

inline constexpr std::size_t kBthBytes = 12, kRethBytes = 16, kAethBytes = 4, kImmediateBytes = 4,
                             kIcrcBytes = 4;
inline constexpr std::size_t kAtomicBytes = 28, kAtomicAckBytes = 8, kInvalidateBytes = 4,
                             kNotificationBytes = 16;
/// The size of the X_WRITE header. It is the same for all three opcodes, so that all packets of a train have
/// the same layout.
inline constexpr std::size_t kXWriteBytes = 24;
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
  std::uint64_t swap_or_add = 0, compare = 0;  ///< FETCH & ADD ignores `compare`.
};
/// The flag in the first packet of a message that may complete before earlier messages.
inline constexpr std::uint16_t kBeginsUnordered = 0x8000;
/// The fields and their sizes in bytes: address 8, key 4, immediate 4, remaining 4, identification 2, flags
/// 2. `remaining` counts the bytes of the message from the first byte of this packet to the message's end.
/// `identification` is the IPv4 identification with which the sender computed the ICRC.
struct XWrite {
  std::uint64_t address = 0;
  RemoteKey key{};
  std::uint32_t immediate = 0;
  std::uint32_t remaining = 0;
  std::uint16_t identification = 0;
  bool begins_unordered = false;  ///< The flag kBeginsUnordered.
};
/// The header that follows the AETH in x_acknowledge. The fields and their sizes in bytes: newest 3, words 1,
/// delay 4, arrival 4, then the bitmap. The PSN in the BTH is the last PSN that was received in order. Bit i
/// of the bitmap (bit i%32 of word i/32) is set if the packet with that PSN + 1 + i has arrived.
struct XAck {
  Psn newest;                  ///< The packet that arrived last. Its round trip is measured.
  std::uint32_t delay_ns = 0;  ///< The time between the arrival of the packet `newest` and this answer.
  /// The low 32 bits of the time at which the packet `newest` arrived, by the receiver's clock.
  std::uint32_t arrival_ns = 0;
  std::uint8_t words = 0;             ///< The number of words in the bitmap, 0 … kMaxBitmapWords.
  const std::byte* bitmap = nullptr;  ///< Big-endian words.
};
inline constexpr std::size_t kXAckFixedBytes = 12, kMaxBitmapWords = 32;

/// A parsed packet. Its spans refer to the received bytes. Each header is valid only for the opcodes that
/// have it.
struct Packet {
  Bth bth;
  Reth reth;  ///< Present in WRITE FIRST and ONLY, and in a READ request.
  Aeth aeth;  ///< Present in ACKs, atomic ACKs, and READ response FIRST, LAST and ONLY.
  AtomicEth atomic;
  std::uint64_t original = 0;  ///< Present in an atomic ACK: the value before the operation.
  RemoteKey invalidated{};     ///< Present in a SEND with invalidate: the key.
  XWrite x_write;              ///< Present in the three x_write opcodes.
  XAck x_ack;                  ///< Present in x_acknowledge.
  std::uint32_t immediate = 0;
  std::span<const std::byte> payload;  ///< The payload without pad and ICRC.
  std::uint8_t header_bytes = 0;       ///< The size of the BTH and the extension headers.
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

/// Parses `datagram`, which is a UDP payload from BTH to ICRC. The ICRC is not checked here. Two things that
/// the responder answers with a NAK are not checked either: the payload's size against the path MTU, and the
/// DMA length of a RETH.
std::expected<Packet, ParseError> parse_packet(std::span<const std::byte> datagram) noexcept;

/// Does the same as parse_packet for a packet whose payload is in other memory than its headers. `header`
/// holds only the header bytes. `datagram_bytes` is the length of the whole UDP payload. `payload` is the
/// memory of the payload and must have at least as many bytes as the packet's payload; pad and ICRC need not
/// be there. For x_acknowledge, whose header size varies, the error is unknown_opcode.
std::expected<Packet, ParseError> parse_scattered(std::span<const std::byte> header,
                                                  std::size_t datagram_bytes,
                                                  std::span<const std::byte> payload) noexcept;

/// True if the opcode is that of an answer, which the peer's responder sends to the local requester.
constexpr bool is_answer(Opcode opcode) {
  return (opcode >= Opcode::read_response_first && opcode <= Opcode::atomic_acknowledge) ||
         opcode == Opcode::x_acknowledge;
}
/// True for READ responses, but not for atomic ACKs.
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

/// Each writer returns the number of bytes that it wrote. `out` must have enough space. 56 bytes suffice for
/// every combination of headers without a bitmap.
std::size_t write_bth(std::byte* out, const Bth& bth) noexcept;
std::size_t write_reth(std::byte* out, const Reth& reth) noexcept;
std::size_t write_aeth(std::byte* out, const Aeth& aeth) noexcept;
std::size_t write_immediate(std::byte* out, std::uint32_t immediate) noexcept;
std::size_t write_atomic(std::byte* out, const AtomicEth& atomic) noexcept;
std::size_t write_original(std::byte* out, std::uint64_t original) noexcept;
std::size_t write_invalidated(std::byte* out, RemoteKey key) noexcept;
/// Writes the sixteen reserved bytes of a congestion notification.
std::size_t write_notification_bytes(std::byte* out) noexcept;
std::size_t write_x_write(std::byte* out, const XWrite& header) noexcept;
/// Writes the XAck header without its bitmap. `words` big-endian words of bitmap must follow it, in the
/// header or as the payload.
std::size_t write_x_ack(std::byte* out, const XAck& header) noexcept;
/// Sets the identification in an X_WRITE header that is already written. `header` points to the BTH before
/// it.
void set_identification(std::byte* header, std::uint16_t identification) noexcept;

}  // namespace rdmc::roce
