// What the members of groups tell each other beside the blocks: records, packed one behind the other into the
// frames of a link. A record is 8 bytes of head (kind 1, zero 3, length of the body 4; big endian) and its
// body. Records are read from memory that a peer wrote: every field is loaded once and checked.
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
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/relay/algorithm.hpp"
#include "dataplane/relay/grant.hpp"
#include "lib/group/confirmation.hpp"
#include "lib/group/names.hpp"

namespace rdmc::group {

/// The records behind it in this frame are this group's.
struct OfGroup {
  GroupName name;
  friend bool operator==(const OfGroup&, const OfGroup&) = default;
};

/// Message number `message` of the group has `bytes` bytes and travels like this - where it says nothing, as
/// all of the group's. Sent to a member by its first source, before the first block.
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

/// The sender of this writes nothing more to us in this group: the epoch has failed, or was ended early.
struct End {
  bool is_answer = false;      ///< it needs none
  std::optional<Rank> failed;  ///< the member that is to blame, if it is known
  Errc code = Errc::cancelled;
  std::string_view what;  ///< for people; at most kMostEndText bytes, cut by whoever encodes
  friend bool operator==(const End&, const End&) = default;
};
inline constexpr std::size_t kMostEndText = 120;

/// Something that a member tells the root, on its way up the tree: a piece of it, all pieces in their order.
struct Note {
  Rank from{};
  bool is_last = false;  ///< of this note
  std::span<const std::byte> bytes;
  friend bool operator==(const Note& a, const Note& b) {
    return a.from == b.from && a.is_last == b.is_last && std::ranges::equal(a.bytes, b.bytes);
  }
};

/// A whole message that is small enough.
struct SmallMessage {
  std::uint64_t message = 0;
  std::span<const std::byte> bytes;
  friend bool operator==(const SmallMessage& a, const SmallMessage& b) {
    return a.message == b.message && std::ranges::equal(a.bytes, b.bytes);
  }
};

/// A whole message that lies in the root's memory, for members on its host to look at it there.
struct MappedMessage {
  std::uint64_t message = 0;
  fabric::MappingOffer offer{};
  std::uint64_t bytes = 0;
  friend bool operator==(const MappedMessage&, const MappedMessage&) = default;
};

/// The sender of this has not made the group yet. It keeps what it was sent in it.
struct NotMade {
  friend bool operator==(const NotMade&, const NotMade&) = default;
};

using Record = std::variant<OfGroup, Announcement, GrantRecord, End, SmallMessage, Report, Verdict, Note,
                            MappedMessage, NotMade>;

inline constexpr std::size_t kRecordHeadBytes = 8;

/// Of the encoded record, head included.
std::size_t encoded_bytes(const Record& record);
/// Writes the record to `out`, which has room for it, and returns its length.
std::size_t encode(const Record& record, std::span<std::byte> out);

/// The records of one frame, in order. What a record refers to (a text, a payload) lies in the frame.
class RecordReader {
 public:
  explicit RecordReader(std::span<const std::byte> records) : rest_(records) {}
  bool done() const { return rest_.empty(); }
  /// Not when done. Errors: protocol_error (cut off, unknown kind, wrong length, padding, a bad field).
  Result<Record> next();

 private:
  std::span<const std::byte> rest_;
};

}  // namespace rdmc::group
