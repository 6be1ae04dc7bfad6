// The records that two processes send each other about the connections between their sockets. Records are
// packed one after the other into the frames of a link. A record has a head of 16 bytes and a body. The head
// is big endian: the kind (1 byte), zeros (3 bytes), the length of the body (4 bytes), and the connection (8
// bytes). Records are read from memory that a peer can write, so every field is loaded once and checked. No
// I/O.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::sockets {

/// Names a connection at both of its ends. A number is never used again between the same two processes. The
/// process that asks for a connection uses its next higher number. One of the two processes uses odd numbers,
/// the other process even numbers.
enum class ConnectionId : std::uint64_t {};

enum class RecordKind : std::uint8_t {
  /// Asks for a connection. Body: limit, from, to.
  open = 1,
  /// The connection is accepted. Body: limit.
  accepted,
  refused,  ///< No socket listens at the address.
  data,     ///< The next bytes of the stream. Body: bytes.
  credit,   ///< More receive credit. Body: limit.
  /// The last record of a sender whose stream ends in order. No data comes after it.
  fin,
  reset,          ///< The last record of the sender. The connection is reset.
  open_messages,  ///< Like `open`, for a connection of messages (SEQPACKET).
  stop,           ///< The sender of this record reads no more. Used for messages only.
  /// The sender of this record has mapped the lanes that the peer has offered. The record belongs to no
  /// connection.
  lanes,
  /// From here on, the sender's bytes go through its lane. Body: limit, which contains the number of the
  /// lane.
  lane,
  /// Something was done in a lane. Sent if the receiver has requested to be informed by records.
  pulse,
  /// The sender of this record wants to write large messages straight into the peer's memory.
  bulk,
  grant,  ///< A slot that the peer may write once. Body: grant.
};

/// A slot grant: memory of the granter that its peer may write once.
struct Grant {
  /// The value of `slot` if the granter refuses: it grants no slot now, and will grant none later.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t slot = 0;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  friend bool operator==(const Grant&, const Grant&) = default;
};

struct Record {
  RecordKind kind = RecordKind::data;
  ConnectionId connection{};
  /// How many bytes may be sent, counted from the beginning of the stream.
  std::uint64_t limit = 0;
  /// The addresses of the two ends, as getsockname() returns them on the side that asks.
  Address from, to;
  Grant grant;
  std::span<const std::byte> bytes;

  friend bool operator==(const Record& a, const Record& b) {
    return a.kind == b.kind && a.connection == b.connection && a.limit == b.limit && a.from == b.from &&
           a.to == b.to && a.grant == b.grant && std::ranges::equal(a.bytes, b.bytes);
  }
};

inline constexpr std::size_t kRecordHeadBytes = 16;
/// The length of the longest record without data, which is `open`.
inline constexpr std::size_t kMostControlBytes = kRecordHeadBytes + 8 + 2 * 19;

constexpr bool is_open(RecordKind kind) {
  return kind == RecordKind::open || kind == RecordKind::open_messages;
}

/// The length of the encoded record, including the head.
std::size_t encoded_bytes(const Record& record);
/// Writes the record to `out`, which must have space for it, and returns the record's length. Fields that a
/// record of this kind does not have are left out.
std::size_t encode(const Record& record, std::span<std::byte> out);
/// Removes the first record from `records`, which must not be empty, and returns it. The record's data stay
/// where they are. Errors: protocol_error if the record is cut off, the kind is unknown, the length is wrong,
/// padding is not zero, or an address is bad.
Result<Record> take_record(std::span<const std::byte>& records);

}  // namespace rdmc::sockets
