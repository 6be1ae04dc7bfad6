// Keeps the state of a server on disk: a copy of the whole state, and the log of the events after it. When
// the log has become long, a new log begins, and a new copy is written meanwhile; then the older files are
// removed. Events that come while the disk works are written together (group commit).
//
// A loop with one thread uses it: append() for each event, submit() at the end of a turn, work() when a
// descriptor is readable or next_deadline() has come.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/replicated-kv/data/database.hpp"
#include "apps/replicated-kv/log/append_file.hpp"
#include "apps/replicated-kv/log/copier.hpp"
#include "apps/replicated-kv/log/recovery.hpp"

namespace rdmc::kv {

/// This option says when events are forced to the disk.
enum class Syncs : std::uint8_t { always, every_second, never };
/// The names of Redis.
constexpr const char* to_string(Syncs syncs) {
  return syncs == Syncs::always ? "always" : syncs == Syncs::every_second ? "everysec" : "no";
}

/// Says what is known about the copies of the state.
struct CopyFacts {
  /// The time of the newest complete copy, in seconds since 1970 as the file system has it; 0 if there is
  /// none.
  std::int64_t written_at = 0;
  bool has_failed = false;               ///< the last attempt has failed
  std::optional<Milliseconds> took;      ///< by the last attempt of this process that has ended
  std::optional<Milliseconds> began_at;  ///< on the steady clock, if one is on its way
};

struct StateLogOptions {
  std::string directory;
  Syncs syncs = Syncs::always;
  /// A new copy is written when the log is longer than this and than the copy.
  std::uint64_t least_log_bytes = 64 << 20;
  std::uint64_t seed = 0;  ///< random; for the ids of files
  bool without_uring = false;
  /// The paths of files of the server that the log does not make. They may be in the directory, too.
  std::vector<std::string> other_files = {};
};

class StateLog {
 public:
  /// Reads what is on disk into `state`, which must exist longer. Errors: those of recover(), already_exists
  /// if another process uses the directory.
  /// `file` writes the logs; by default, it is AppendFile::make().
  static Result<std::unique_ptr<StateLog>> open(const StateLogOptions& options, LoggedState& state,
                                                std::unique_ptr<AppendFile> file = nullptr);
  ~StateLog();

  /// Adds an event that the state has just applied.
  void append(const OrderedEvent& event);
  /// The state is about to be replaced by another one. What is on disk stays until load_ended().
  void load_begins();
  /// The state was replaced by one of this place. It is on disk some time later.
  void load_ended(const StoredState& place, Milliseconds now);
  /// Reads the state from the disk again, if the state in memory is not complete because load_begins() was
  /// called last. Errors: those of recover().
  Result<void> restore();
  /// Waits until the disk has everything, or refuses it.
  void flush();
  /// Like flush(), for the end of the process. Errors: the reason why the disk does not have everything.
  Result<void> end();
  /// True while a copy is written without which the disk does not have the state.
  bool needs_copy() const { return !has_base_ && !is_void_ && copier_.is_busy(); }

  /// Begins to write what has been appended, if the disk is idle.
  void submit(Milliseconds now);
  /// Does what is due.
  void work(Milliseconds now);
  std::optional<Milliseconds> next_deadline() const;
  /// The descriptors that are readable when work() has something to do. The second one changes, and may be
  /// -1.
  std::pair<int, int> descriptors() const { return {file_->descriptor(), copier_.descriptor()}; }

  /// The place of the state in memory.
  const StoredState& place() const { return place_; }
  /// The disk has the state with all events below this position. It is 0 if the disk has an older state only.
  std::uint64_t persisted() const { return has_base_ && !is_void_ ? durable_place_.position : 0; }
  /// The kernel has all events below this position, so that they survive the death of this process.
  std::uint64_t written() const { return has_base_ && !is_void_ ? written_place_.position : 0; }
  /// True if all events that were appended have been written.
  bool is_written() const;
  /// The reason why the log should get no more events at present, for people; or null. What was appended is
  /// kept, and is written as soon as that is possible.
  const std::string* failure() const { return failure_ ? &*failure_ : nullptr; }
  /// True if something could not be written, or could not be made durable, until that has succeeded. Then
  /// there is a failure(), too.
  bool is_refused() const { return failure_ && (is_refused_ || is_distrusted_); }
  /// True while the disk has not finished a write for a time that is too long.
  bool hangs() const { return is_slow_; }
  /// Returns what went wrong since the last call, in words for people.
  std::vector<std::string> take_complaints() { return std::exchange(complaints_, {}); }
  /// Begins to write a copy soon, however short the log is.
  void request_copy() {
    is_copy_wanted_ = true;
    copy_again_ = 0;
  }
  void set_least_log_bytes(std::uint64_t bytes) { options_.least_log_bytes = bytes; }
  /// The bytes of the log since the newest copy was begun.
  std::uint64_t bytes() const { return log_bytes_; }
  bool is_copying() const { return copier_.is_busy(); }
  CopyFacts copy_facts() const;
  /// The bytes that open() has read, or that the newest copy and the logs after it have had since.
  std::uint64_t all_bytes() const { return copy_bytes_ + log_bytes_; }

 private:
  /// A log that is not completely on disk yet. Only the last one grows.
  struct Segment {
    std::uint64_t number = 0, id = 0;
    Descriptor file;
    // Its head is made durable first, then its name. No frame is written before that. So a log without a head
    // has nothing that counts.
    std::vector<std::byte> head;
    bool has_durable_name = false, has_events = false, is_sealed = false;
    std::vector<std::byte> waiting;
    std::uint64_t end = kFileHeadBytes;  // of the file, with what waits
    std::uint64_t written = kFileHeadBytes, durable = 0, reserved = 0;
    std::uint64_t seal = 0;  // the bytes at the end that only say what is on disk
    StoredState place;       // after its last event

    bool has_unsynced() const { return written > durable + seal; }
  };

  StateLog(const StateLogOptions& options, Directory directory, LoggedState& state)
      : options_(options), directory_(std::move(directory)), state_(state) {}
  Result<void> start(const Recovered& found);
  Result<void> begin_segment(FileKind kind);
  void drop_segments();
  void stop_copy();
  void lose_base(const StoredState& place);
  void distrust(const Error& error, Milliseconds now);
  void clear_failure();
  bool can_seal() const;
  void seal();
  Result<void> begin_log_of_copy();
  void fail_copy(const Error& error, Milliseconds now);
  bool is_copy_due(Milliseconds now) const;
  void begin_copy(Milliseconds now);
  void take_copy(Milliseconds now);
  Result<void> finish_copy(std::uint64_t bytes);
  void note_copy_time(const std::string& name);
  void take_write(Milliseconds now);
  void note_begun_write(Milliseconds now);
  void look_at_slow_write(Milliseconds now);
  void write_next(Milliseconds now);
  void take_waiting(Segment& segment);
  void write_at_once(Segment& segment, Milliseconds now);
  void refuse(const Error& error, Milliseconds now);
  void reserve(Segment& segment, Milliseconds now);
  static void give_back(const Segment& segment);
  bool is_sync_due(Milliseconds now) const;
  std::uint64_t next_id();
  void complain_of_foreign_files(const std::vector<std::string>& names);

  StateLogOptions options_;
  Directory directory_;
  LoggedState& state_;
  std::unique_ptr<AppendFile> file_;
  Copier copier_;

  StoredState place_;
  bool is_void_ = false;  // between load_begins() and load_ended()
  bool has_base_ = true;  // what the logs begin with is on disk
  std::deque<Segment> segments_;
  std::uint64_t last_number_ = 0, last_id_ = 0;

  // The write that is on its way, or that must be tried again.
  std::vector<std::byte> writing_;
  StoredState writing_place_, written_place_, syncing_place_, durable_place_;
  std::uint64_t syncing_end_ = 0;
  std::uint64_t on_its_way_ = 0;  // the bytes of writing_ that AppendFile has
  bool is_naming_ = false, is_syncing_ = false, is_flushing_ = false;
  std::optional<Milliseconds> busy_since_;  // when the write that is on its way was begun
  bool is_slow_ = false;                    // the write has taken too long
  Milliseconds synced_at_ = 0;

  std::uint64_t copy_number_ = 0, copy_bytes_ = 0, log_bytes_ = 0;
  std::size_t logs_ = 0;
  CopyFacts copy_facts_;
  Milliseconds copy_began_at_ = 0;
  bool is_copy_wanted_ = false;
  Milliseconds copy_again_ = 0, copy_delay_ = 0;

  std::optional<std::string> failure_;
  bool is_refused_ = false;     // the last write or synchronization has failed
  bool is_distrusted_ = false;  // a synchronization has failed, and no copy was written since
  bool reserves_ = true;
  Milliseconds retry_at_ = 0, reserve_again_ = 0;
  std::vector<std::string> complaints_;
};

}  // namespace rdmc::kv
