// What two processes tell each other about the connections between their sockets: records, packed one behind
// the other into the frames of a link. A record is 16 bytes of head (kind 1, zero 3, length of the body 4,
// connection 8; big endian) and its body. Records are read from memory that a peer wrote: every field is
// loaded once and checked. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::sockets {

/// Names a connection to both its ends, and never another one of the same two processes: who asks for it
/// counts up, one of the two in odd numbers, the other in even ones.
enum class ConnectionId : std::uint64_t {};

enum class RecordKind : std::uint8_t {
  open = 1,       ///< a connection is asked for: limit, from, to
  accepted,       ///< and is there: limit
  refused,        ///< nobody listens there
  data,           ///< the next bytes of the stream: bytes
  credit,         ///< the reader has made room: limit
  fin,            ///< the sender's last record of a stream that ended well: no data comes after it
  reset,          ///< the sender's last record: the connection is no more
  open_messages,  ///< as open, for a connection of messages (SEQPACKET)
  stop,           ///< the sender reads no more; of messages only
  lanes,          ///< of no connection: the sender has mapped the lanes that the peer has offered
  lane,           ///< what the sender says from here on goes through its lane: limit, the lane's number
  pulse,          ///< something was done in a lane, and this end of the connection asked to be told
  bulk,           ///< the sender would write large messages straight into the peer's memory
  grant,          ///< where it may write one of them, once: grant
};

/// A place in the granter's memory.
struct Grant {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};  ///< `slot` when there is none, and will be none
  std::uint32_t slot = 0;
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  friend bool operator==(const Grant&, const Grant&) = default;
};

struct Record {
  RecordKind kind = RecordKind::data;
  ConnectionId connection{};
  std::uint64_t limit = 0;  ///< how many bytes may be sent, counted from the stream's beginning
  Address from, to;         ///< the ends, as getsockname calls them at who asks
  Grant grant;
  std::span<const std::byte> bytes;

  friend bool operator==(const Record& a, const Record& b) {
    return a.kind == b.kind && a.connection == b.connection && a.limit == b.limit && a.from == b.from &&
           a.to == b.to && a.grant == b.grant && std::ranges::equal(a.bytes, b.bytes);
  }
};

inline constexpr std::size_t kRecordHeadBytes = 16;
/// The longest record that carries no data: `open`.
inline constexpr std::size_t kMostControlBytes = kRecordHeadBytes + 8 + 2 * 19;

constexpr bool is_open(RecordKind kind) {
  return kind == RecordKind::open || kind == RecordKind::open_messages;
}

/// Of the encoded record, head included.
std::size_t encoded_bytes(const Record& record);
/// Writes the record to `out`, which has room for it, and returns its length. Fields that its kind does not
/// have are left out.
std::size_t encode(const Record& record, std::span<std::byte> out);
/// Takes the first record off `records`, which are not empty; its data lie where the record lay. Errors:
/// protocol_error (cut off, unknown kind, wrong length, padding, a bad field).
Result<Record> take_record(std::span<const std::byte>& records);

}  // namespace rdmc::sockets
