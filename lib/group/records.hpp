// The records that members of groups exchange in addition to blocks. Records are packed one after another
// into the frames of a link. A record has a head of 8 bytes and a body. The head is big endian: the kind (1
// byte), zeros (3 bytes), and the length of the body (4 bytes). Records are read from memory that a peer
// writes, so every field is loaded only once and is checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/fabric/local_peer.hpp"
#include "dataplane/relay/algorithm.hpp"
#include "dataplane/relay/grant.hpp"
#include "lib/group/confirmation.hpp"
#include "lib/group/names.hpp"

namespace rdmc::group {

/// The records after this one in the same frame belong to this group.
struct OfGroup {
  GroupName name;
  friend bool operator==(const OfGroup&, const OfGroup&) = default;
};

/// Announces that message number `message` has `bytes` bytes and travels by `plan`. If `plan` is empty, the
/// message travels by the plan of the group. A member gets the announcement from its first source, before the
/// first block.
struct Announcement {
  std::uint64_t message = 0;
  std::uint64_t bytes = 0;
  std::optional<relay::MessagePlan> plan{};
  friend bool operator==(const Announcement&, const Announcement&) = default;
};

struct GrantRecord {
  std::uint64_t message = 0;
  relay::BlockGrant grant;
  friend bool operator==(const GrantRecord&, const GrantRecord&) = default;
};

/// The sender of this record writes no more into the receiver's memory in this group, because the epoch has
/// failed or was ended early.
struct End {
  bool is_answer = false;      ///< This record answers an End and needs no answer.
  std::optional<Rank> failed;  ///< The member to blame, if it is known.
  Errc code = Errc::cancelled;
  /// An explanation for people. At most kMostEndText bytes; the encoder cuts longer texts.
  std::string_view what;
  friend bool operator==(const End&, const End&) = default;
};
inline constexpr std::size_t kMostEndText = 120;

/// A piece of a note, which goes up the tree to the root. The pieces of a note are sent in order.
struct Note {
  Rank from{};
  bool is_last = false;  ///< This is the last piece of the note.
  std::span<const std::byte> bytes;
  friend bool operator==(const Note& a, const Note& b) {
    return a.from == b.from && a.is_last == b.is_last && std::ranges::equal(a.bytes, b.bytes);
  }
};

/// A whole small message.
struct SmallMessage {
  std::uint64_t message = 0;
  std::span<const std::byte> bytes;
  friend bool operator==(const SmallMessage& a, const SmallMessage& b) {
    return a.message == b.message && std::ranges::equal(a.bytes, b.bytes);
  }
};

/// A whole mapped message. Members on the root's host read it in the root's memory.
struct MappedMessage {
  std::uint64_t message = 0;
  fabric::MappingOffer offer{};
  std::uint64_t bytes = 0;
  friend bool operator==(const MappedMessage&, const MappedMessage&) = default;
};

/// The sender of this record has not made the group yet. It keeps the records that it has received in this
/// group.
struct NotMade {
  friend bool operator==(const NotMade&, const NotMade&) = default;
};

using Record = std::variant<OfGroup, Announcement, GrantRecord, End, SmallMessage, Report, Verdict, Note,
                            MappedMessage, NotMade>;

inline constexpr std::size_t kRecordHeadBytes = 8;

/// The length of the encoded record, including the head.
std::size_t encoded_bytes(const Record& record);
/// Writes the record to `out`, which must have encoded_bytes(record) bytes or more. Returns the length of the
/// record.
std::size_t encode(const Record& record, std::span<std::byte> out);

/// Reads the records of one frame in order. The texts and payloads of a record point into the frame.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> records) : rest_(records) {}
  bool done() const { return rest_.empty(); }
  /// Returns the next record. Precondition: !done(). Errors: protocol_error if the record is cut off, has an
  /// unknown kind or a wrong length, or if its padding or a field is invalid.
  Result<Record> next();

 private:
  std::span<const std::byte> rest_;
};

}  // namespace rdmc::group
