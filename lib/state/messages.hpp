// What the replicas of a state send to each other, as values, and their encoding. A batch is a message of the
// group: the main puts events and its own decisions into it, in the order that is the same everywhere. A note
// goes from a replica to the main. A snapshot head goes from one replica to another in front of the state.
// Decoding checks all bounds. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "lib/include/rdmc/replicated_state.hpp"

namespace rdmc::state {

using Bytes = std::vector<std::byte>;

/// One replica of one state. The number is random, and is never used again. So the events of a replica that
/// was opened again are not mistaken for those of the earlier one.
enum class ReplicaId : std::uint64_t {};

struct Replica {
  MemberId member{};
  ReplicaId id{};
  bool is_complete = false;  ///< it has the whole state
  /// It has had the whole state on disk at some time since it became complete. Without
  /// ReplicatedStateOptions::awaits_disk, this is the same as `is_complete`.
  bool is_stored = false;

  friend bool operator==(const Replica&, const Replica&) = default;
};

/// An event of the application.
struct Event {
  ReplicaId from{};
  std::uint64_t number = 0;  ///< 1 for the first event of this replica, and so on
  std::span<const std::byte> bytes;

  friend bool operator==(const Event& a, const Event& b) {
    return a.from == b.from && a.number == b.number && std::ranges::equal(a.bytes, b.bytes);
  }
};
/// These are the replicas in an epoch of the group. Each epoch begins with such a list.
struct ReplicaList {
  std::uint64_t epoch = 0;
  std::vector<Replica> replicas;
  friend bool operator==(const ReplicaList&, const ReplicaList&) = default;
};
/// `from` saves its state as it is after this entry, and sends it to `to`.
struct TransferOrder {
  ReplicaId from{}, to{};
  friend bool operator==(const TransferOrder&, const TransferOrder&) = default;
};
using Entry = std::variant<Event, ReplicaList, TransferOrder>;

struct Batch {
  std::uint64_t position = 0;  ///< the position of the first entry in the order of all entries
  std::int64_t time = 0;       ///< the agreed time, in nanoseconds since 1970
  std::uint64_t seed = 0;      ///< the seed of the agreed random numbers
  /// All replicas that are stored, and these were enough, have what is below this position on disk. It is 0
  /// without ReplicatedStateOptions::awaits_disk.
  std::uint64_t durable = 0;
  std::vector<Entry> entries;

  friend bool operator==(const Batch&, const Batch&) = default;
};

/// A replica introduces itself to the main at the beginning of an epoch. It does so again when it has got the
/// state, when it has it on disk, or when a transfer to it has failed.
struct Hello {
  ReplicaId id{};
  bool is_complete = false, is_stored = false;
  ReplicaId loads_from{};       ///< the replica whose state it gets, or 0
  StoredState stored{};         ///< if it is not complete: what its application has read from the disk
  std::uint64_t persisted = 0;  ///< if it is complete: see Persisted
  friend bool operator==(const Hello&, const Hello&) = default;
};
/// An event that the main should put into the order.
struct Forward {
  std::uint64_t number = 0;
  std::span<const std::byte> bytes;
  friend bool operator==(const Forward& a, const Forward& b) {
    return a.number == b.number && std::ranges::equal(a.bytes, b.bytes);
  }
};
/// A replica has everything below this position on disk.
struct Persisted {
  std::uint64_t position = 0;
  friend bool operator==(const Persisted&, const Persisted&) = default;
};
using Note = std::variant<Hello, Forward, Persisted>;

/// The values that a replica needs in addition to the application's state.
struct SnapshotHead {
  std::uint64_t position = 0;  ///< the state has the entries below this position
  std::uint64_t epoch = 0;     ///< the epoch of the newest ReplicaList
  std::int64_t time = 0;
  std::vector<Replica> replicas;
  std::map<ReplicaId, std::uint64_t> last;  ///< the number of the last event of each replica
  std::vector<MemberId> departed;           ///< see AgreedInput

  friend bool operator==(const SnapshotHead&, const SnapshotHead&) = default;
};

/// The maximum length of an event. It fits into a note.
inline constexpr std::size_t kMostEventBytes = ReplicatedState::kMostEventBytes;

Bytes encode(const Batch& batch);
Bytes encode(const Note& note);
Bytes encode(const SnapshotHead& head);

// The spans of the results point into `bytes`. Errors: protocol_error if the bytes are not such a message,
// and version_mismatch.
Result<Batch> decode_batch(std::span<const std::byte> bytes);
Result<Note> decode_note(std::span<const std::byte> bytes);
Result<SnapshotHead> decode_snapshot_head(std::span<const std::byte> bytes);

}  // namespace rdmc::state
