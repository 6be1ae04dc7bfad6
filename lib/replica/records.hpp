// The records that two processes of a rank program exchange. Records are packed one after another into the
// frames of a connection. A record has a head of 8 bytes and a body. The head is big endian, like all numbers
// of a body: the kind (1 byte), zeros (3 bytes), and the length of the body (4 bytes). Records are read from
// memory that a peer writes, so every field is loaded only once and is checked.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <variant>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::replica {

/// Identifies a communicator. All its members have agreed on the number.
enum class ContextId : std::uint32_t {};

/// The part of a message that a receive must match. `source` is the sender's rank in the communicator.
struct Envelope {
  ContextId context{};
  std::uint32_t source = 0;
  std::int32_t tag = 0;
  /// The number of the message in its logical channel: (source, destination, context, tag). All replicas of
  /// the source give the same number to the same message. Only programs with replicas use it.
  std::uint32_t sequence = 0;
  friend bool operator==(const Envelope&, const Envelope&) = default;
};

/// A whole message, with its bytes.
struct Eager {
  Envelope envelope;
  std::span<const std::byte> bytes;
  friend bool operator==(const Eager& a, const Eager& b) {
    return a.envelope == b.envelope && std::ranges::equal(a.bytes, b.bytes);
  }
};

/// Announces a message whose bytes are written when the receiver has granted memory for them. `transfer` is
/// the sender's number of the message.
struct Announcement {
  Envelope envelope;
  std::uint32_t transfer = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Announcement&, const Announcement&) = default;
};

/// The answer to an announcement: the sender may write the first `bytes` bytes of the message to this memory,
/// with `arrival` as the immediate of each WRITE. `arrival` is the receiver's number of the message. If
/// `bytes` is 0, the sender writes nothing.
struct Grant {
  std::uint32_t transfer = 0;
  std::uint32_t arrival = 0;
  std::uint64_t bytes = 0;
  std::uint64_t remote_address = 0;
  RemoteKey remote_key{};
  friend bool operator==(const Grant&, const Grant&) = default;
};

/// The receiver has passed so many more bytes of eager messages to the program. The sender then may send that
/// many more of them.
struct Consumed {
  std::uint64_t bytes = 0;
  friend bool operator==(const Consumed&, const Consumed&) = default;
};

/// A replica of the receiver has all messages of the channel (source, destination, context, tag) whose
/// numbers are before `sequence`. The source is the rank that gets this record, and the destination is the
/// rank that sends it.
struct Acknowledgement {
  ContextId context{};
  std::int32_t tag = 0;
  std::uint32_t sequence = 0;
  friend bool operator==(const Acknowledgement&, const Acknowledgement&) = default;
};

/// Names a logical channel of a process. `rank` is the rank of the world at the other side.
struct ChannelKey {
  ContextId context{};
  Rank rank{};
  std::int32_t tag = 0;
  friend bool operator==(const ChannelKey&, const ChannelKey&) = default;
};

/// The messages of a channel to the own rank whose numbers are before `sequence`.
struct Sight {
  ChannelKey channel;
  std::uint32_t sequence = 0;
  friend bool operator==(const Sight&, const Sight&) = default;
};

/// Asks another replica of the same rank for a Sighting as soon as it has seen these messages.
struct Question {
  Sight sight;
  friend bool operator==(const Question&, const Question&) = default;
};

/// The answer to a Question: this replica has seen these messages, or their announcements.
struct Sighting {
  Sight sight;
  friend bool operator==(const Sighting&, const Sighting&) = default;
};

/// Finds out whether a hold can never end, because holds wait for each other (messenger_order.cpp). From a
/// replica of the same rank, it asks why this replica has not seen the last one of these messages. From
/// another rank, whose own rank the channel then names, it asks whether this process holds that message back.
struct Chase {
  Sight sight;
  std::uint32_t origin = 0;  ///< the process with the first hold
  std::uint64_t number = 0;  ///< increases from one chase of this process to the next
  friend bool operator==(const Chase&, const Chase&) = default;
};

/// Asks the receiver to answer with the same record, with `is_answer` set, as soon as it has learned of the
/// recovery with this number. All records that were sent before a fence, or before its answer, have then been
/// handled at the other side.
struct Fence {
  std::uint64_t number = 0;
  bool is_answer = false;
  friend bool operator==(const Fence&, const Fence&) = default;
};

/// Messages of a channel that follow each other, and that are equal as far as they are compared.
struct SentMessages {
  /// The length of messages that are not compared. No message has this length.
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

  std::uint32_t count = 0;   ///< at least 1
  std::uint64_t bytes = 0;   ///< the length of each message, or kUnknown
  std::uint64_t digest = 0;  ///< of each message; 0 if digests are not compared
  friend bool operator==(const SentMessages&, const SentMessages&) = default;
};

/// Tells another replica of the same rank what this replica has sent in a channel. The rank of the channel is
/// the destination. `first` is the number of the first message. `sent` has encoded SentMessages (see
/// put_sent() and sent_at()). It may be empty: then `first` is the number of the next message.
struct SendReport {
  ChannelKey channel;
  std::uint32_t first = 0;
  std::span<const std::byte> sent;
  friend bool operator==(const SendReport& a, const SendReport& b) {
    return a.channel == b.channel && a.first == b.first && std::ranges::equal(a.sent, b.sent);
  }
};

/// The program has ended its part at this replica. It has sent nothing that it has not reported before.
struct SendsEnded {
  friend bool operator==(const SendsEnded&, const SendsEnded&) = default;
};

using Record = std::variant<Eager, Announcement, Grant, Consumed, Acknowledgement, Question, Sighting, Fence,
                            SendReport, SendsEnded, Chase>;

inline constexpr std::size_t kRecordHeadBytes = 8;
/// The length of an Eager record with an empty message.
inline constexpr std::size_t kEagerHeadBytes = kRecordHeadBytes + 16;
/// The length of the longest record that is neither an Eager record nor a SendReport.
inline constexpr std::size_t kLongestRecordBytes = kRecordHeadBytes + 32;
/// The length of a SendReport without messages, and of each SentMessages in it.
inline constexpr std::size_t kSendReportHeadBytes = kRecordHeadBytes + 16, kSentMessagesBytes = 24;

/// The largest SentMessages::count. Numbers of messages wrap around, so counts must be far below 2^31.
inline constexpr std::uint32_t kMostSentMessages = 1 << 24;

/// Writes `sent` to `out`, which must have kSentMessagesBytes bytes.
void put_sent(std::byte* out, const SentMessages& sent);
/// Returns the element `index` of SendReport::sent. Errors: protocol_error if a field is invalid.
Result<SentMessages> sent_at(std::span<const std::byte> sent, std::size_t index);

/// The length of the encoded record, including the head.
std::size_t encoded_bytes(const Record& record);
/// Writes the record to `out`, which must have encoded_bytes(record) bytes or more. Returns the length of the
/// record.
std::size_t encode(const Record& record, std::span<std::byte> out);

/// Reads the records of one frame in order. The bytes of a record point into the frame.
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

}  // namespace rdmc::replica
