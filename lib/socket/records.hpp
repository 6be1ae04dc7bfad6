// The records that two processes send each other about the connections between their sockets. Records are
// packed one after the other into the frames of a link. A record is a head of 16 bytes (kind 1, zero 3,
// length of the body 4, connection 8; big endian) and its body. Records are read from memory that a peer can
// write, so every field is loaded once and checked. No I/O.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::sockets {

/// Names a connection at both its ends. A number is never used again between the same two processes. The
/// process that asks for a connection counts up; one of the two uses odd numbers, the other one even numbers.
enum class ConnectionId : std::uint64_t {};

enum class RecordKind : std::uint8_t {
  /// Asks for a connection. Body: limit, from, to.
  open = 1,
  /// The connection is accepted. Body: limit.
  accepted,
  refused,  ///< No socket listens there.
  data,     ///< The next bytes of the stream. Body: bytes.
  credit,   ///< More receive credit. Body: limit.
  /// The sender's last record of a stream that ends in order. No data comes after it.
  fin,
  reset,          ///< The sender's last record: the connection is reset.
  open_messages,  ///< like open, for a connection of messages (SEQPACKET)
  stop,           ///< The sender reads no more. For messages only.
  /// The sender has mapped the lanes that the peer has offered. The record belongs to no connection.
  lanes,
  /// From here on the sender's bytes go through its lane. Body: limit, which is the number of the lane.
  lane,
  /// Something was done in a lane, and the receiver has asked to be told by records.
  pulse,
  /// The sender wants to write large messages straight into the peer's memory.
  bulk,
  grant,  ///< The slot that the peer may write once. Body: grant.
};

/// A slot grant: memory of the granter that its peer may write once.
struct Grant {
  /// The value of `slot` if there is no slot, and will be none.
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
  /// The two ends, as getsockname() names them on the asking side.
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
/// Writes the record to `out`, which must have room for it, and returns its length. Fields that its kind does
/// not have are left out.
std::size_t encode(const Record& record, std::span<std::byte> out);
/// Takes the first record from the front of `records`, which must not be empty. The record's data stay where
/// they are. Errors: protocol_error (cut off, unknown kind, wrong length, padding that is not zero, or a bad
/// address).
Result<Record> take_record(std::span<const std::byte>& records);

}  // namespace rdmc::sockets
