#include "apps/replicated-kv/log/state_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace rdmc::kv {

namespace {

/// The space of a log is reserved in pieces of this size, when less than half of it is left. So a full disk
/// is noticed before an event cannot be written.
constexpr std::uint64_t kReserveBytes = 4 << 20;
constexpr Milliseconds kSyncEvery = 1000, kRetryAfter = 1000, kSealAfter = 1000;
constexpr Milliseconds kSlowWrite = 2000;
constexpr Milliseconds kCopyAgainAfter = 5000, kLongestCopyDelay = 300'000;
constexpr std::size_t kMostLogs = 16;

std::string name_of(const char* kind, std::uint64_t number) {
  return std::string(kind) + "-" + std::to_string(number);
}

std::string new_name_of(std::uint64_t number) {
  return name_of(kNewCopyName, number);
}

}  // namespace

Result<std::unique_ptr<StateLog>> StateLog::open(const StateLogOptions& options, LoggedState& state,
                                                 std::unique_ptr<AppendFile> file) {
  auto directory = Directory::open(options.directory);
  if (!directory) return std::unexpected(directory.error());
  const auto found = recover(*directory, state);
  if (!found) return std::unexpected(found.error());
  std::unique_ptr<StateLog> log(new StateLog(options, std::move(*directory), state));
  if (!file) {
    auto made = AppendFile::make(options.without_uring);
    if (!made) return std::unexpected(made.error());
    file = std::move(*made);
  }
  log->file_ = std::move(file);
  if (auto started = log->start(*found); !started) return std::unexpected(started.error());
  return log;
}

StateLog::~StateLog() {
  if (file_) file_->drain();
}

/// The log always goes on in a new file. So nothing follows an end that was cut off. What was read may be
/// only in the memory of the kernel, if the process before this one died. It must be on disk before anything
/// that follows it is.
Result<void> StateLog::start(const Recovered& found) {
  for (const std::string& useless : found.useless) directory_.remove(useless);
  const auto unfinished = directory_.list(kNewCopyName);
  if (!unfinished) return std::unexpected(unfinished.error());
  for (const auto& [number, name] : *unfinished) directory_.remove(name);
  for (const std::string& used : found.used) {
    const auto file = directory_.open_file(used);
    if (!file) return std::unexpected(file.error());
    if (const auto synced = file_->sync_now(file->get()); !synced)
      return fail(synced.error().code, directory_.path() + "/" + used + ": " + synced.error().what);
  }
  if (auto synced = directory_.sync(); !synced) return synced;
  std::ranges::copy(found.complaints, std::back_inserter(complaints_));
  complain_of_foreign_files(found.foreign_files);
  place_ = written_place_ = durable_place_ = found.place;
  last_number_ = found.last_number;
  copy_bytes_ = found.copy_bytes;
  log_bytes_ = found.log_bytes;
  logs_ = found.logs;
  if (copy_bytes_ > 0) note_copy_time(found.used.front());
  // A log that is not trusted was read from the memory of the kernel. Then a copy must be written first.
  has_base_ = !is_distrusted_;
  if (has_base_)
    if (auto begun = begin_segment(FileKind::log); !begun) return begun;
  is_void_ = false;
  return {};
}

void StateLog::complain_of_foreign_files(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const std::string path = directory_.path() + "/" + name;
    std::error_code error;  // A file that does not exist is no other one.
    if (std::ranges::none_of(options_.other_files, [&](const std::string& other) {
          return std::filesystem::equivalent(path, other, error);
        }))
      complaints_.push_back(path +
                            ": this server does not use this file. The directory is for its files only");
  }
}

std::uint64_t StateLog::next_id() {
  // Any sequence does in which no number comes again soon.
  return options_.seed + ++last_id_ * 0x9E3779B97F4A7C15;
}

Result<void> StateLog::begin_segment(FileKind kind) {
  auto file = directory_.create(name_of(kLogName, last_number_ + 1));
  if (!file) return std::unexpected(file.error());
  Segment& segment = segments_.emplace_back();
  segment.number = ++last_number_;
  segment.id = next_id();
  segment.file = std::move(*file);
  segment.head = encode(FileHead{kind, segment.id, place_});
  segment.place = place_;
  ++logs_;
  return {};
}

void StateLog::append(const OrderedEvent& event) {
  const StoredState place{.epoch = event.epoch, .position = event.position + 1, .time = event.time};
  if (segments_.empty()) {
    // The event is in the state, of which a copy must be written anyway.
    place_ = written_place_ = durable_place_ = place;
    return;
  }
  const auto logged = encode_logged(event);
  Segment& segment = segments_.back();
  put_frame(segment.waiting, {segment.id, segment.end, segment.durable}, logged);
  const std::uint64_t bytes = kFrameHeadBytes + logged.size();
  segment.end += bytes;
  log_bytes_ += bytes;
  segment.place = place_ = place;
  segment.has_events = true;
  segment.is_sealed = false;
  segment.seal = 0;
}

// -- Another state --

void StateLog::stop_copy() {
  if (!copier_.is_busy()) return;
  copier_.stop();
  directory_.remove(new_name_of(copy_number_));
}

void StateLog::load_begins() {
  stop_copy();
  is_void_ = true;
}

void StateLog::drop_segments() {
  file_->drain();
  segments_.clear();
  writing_.clear();
  on_its_way_ = 0;
  is_naming_ = is_refused_ = false;
}

/// The older files stay until a copy of the state is complete, but nothing more needs to be in them.
void StateLog::lose_base(const StoredState& place) {
  stop_copy();
  drop_segments();
  place_ = written_place_ = durable_place_ = place;
  has_base_ = false;
}

void StateLog::load_ended(const StoredState& place, Milliseconds now) {
  lose_base(place);
  is_void_ = false;
  begin_copy(now);
}

/// After a synchronization has failed, the kernel takes what the file had got for written, although the disk
/// may not have it. A later synchronization succeeds then. So only a copy of the state in memory helps.
void StateLog::distrust(const Error& error, Milliseconds now) {
  complaints_.push_back(error.what +
                        "; a copy of the state is written, because the log is not trusted any more");
  lose_base(place_);
  is_distrusted_ = true;
  failure_ = error.what;
  copy_again_ = std::max(copy_again_, now);
}

Result<void> StateLog::restore() {
  if (!is_void_) return {};
  flush();
  drop_segments();
  const auto found = recover(directory_, state_);
  if (!found) return std::unexpected(found.error());
  return start(*found);
}

// -- Copies --

CopyFacts StateLog::copy_facts() const {
  CopyFacts facts = copy_facts_;
  if (copier_.is_busy()) facts.began_at = copy_began_at_;
  return facts;
}

void StateLog::note_copy_time(const std::string& name) {
  const auto file = directory_.open_file(name);
  struct stat status {};
  if (file && ::fstat(file->get(), &status) == 0) copy_facts_.written_at = status.st_mtim.tv_sec;
}

bool StateLog::is_copy_due(Milliseconds now) const {
  if (copier_.is_busy() || is_void_ || now < copy_again_) return false;
  const bool is_long = log_bytes_ > std::max(options_.least_log_bytes, copy_bytes_) || logs_ > kMostLogs;
  return !has_base_ || is_copy_wanted_ || is_long;
}

/// A log begins where the copy is made. If a copy has failed, its log may still be without events.
Result<void> StateLog::begin_log_of_copy() {
  if (has_base_) {
    const bool is_there = !segments_.empty() && !segments_.back().has_events;
    return is_there ? Result<void>() : begin_segment(FileKind::log);
  }
  // The state has all events of the logs that belong to a copy that has failed.
  for (const Segment& segment : segments_) directory_.remove(name_of(kLogName, segment.number));
  drop_segments();
  written_place_ = durable_place_ = place_;
  return begin_segment(FileKind::log_after_copy);
}

/// The state in memory is that after all events that were appended.
void StateLog::begin_copy(Milliseconds now) {
  is_copy_wanted_ = false;
  copy_again_ = now + kCopyAgainAfter;
  copy_began_at_ = now;
  auto begun = begin_log_of_copy();
  if (begun) {
    copy_number_ = last_number_;
    log_bytes_ = 0;
    auto file = directory_.create(new_name_of(copy_number_));
    begun = file ? copier_.begin(std::move(*file), {FileKind::copy, next_id(), place_},
                                 [this](const auto& write) { state_.save(write); })
                 : std::unexpected(file.error());
  }
  if (begun) return;
  fail_copy(begun.error(), now);
  // As long as there is no log, the events are only in the state.
  if (segments_.empty()) refuse(begun.error(), now);
}

/// If a copy is only meant to make the files shorter, it can wait for long until the disk is in order again.
void StateLog::fail_copy(const Error& error, Milliseconds now) {
  complaints_.push_back(error.what);
  copy_facts_.has_failed = true;
  copy_delay_ = has_base_ ? std::clamp(2 * copy_delay_, kCopyAgainAfter, kLongestCopyDelay) : kCopyAgainAfter;
  copy_again_ = now + copy_delay_;
  is_copy_wanted_ = true;
}

void StateLog::take_copy(Milliseconds now) {
  const auto bytes = copier_.finished();
  if (!bytes) return;
  const auto finished = *bytes ? finish_copy(**bytes) : std::unexpected(bytes->error());
  copy_facts_.took = now - copy_began_at_;
  if (finished) return;
  directory_.remove(new_name_of(copy_number_));
  fail_copy(finished.error(), now);
}

Result<void> StateLog::finish_copy(std::uint64_t bytes) {
  const auto renamed = directory_.rename(new_name_of(copy_number_), name_of(kCopyName, copy_number_));
  if (!renamed) return renamed;
  has_base_ = true;
  if (std::exchange(is_distrusted_, false)) clear_failure();
  copy_delay_ = 0;
  copy_bytes_ = bytes;
  logs_ = last_number_ - copy_number_ + 1;
  copy_facts_.has_failed = false;
  note_copy_time(name_of(kCopyName, copy_number_));
  for (const char* const kind : {kLogName, kCopyName}) {
    const auto files = directory_.list(kind);
    if (!files) return std::unexpected(files.error());
    for (const auto& [number, name] : *files)
      if (number < copy_number_) directory_.remove(name);
  }
  return {};
}

// -- Writing --

bool StateLog::is_sync_due(Milliseconds now) const {
  // A later log must not be on disk before the end of an earlier one is.
  return options_.syncs == Syncs::always || is_flushing_ || segments_.size() > 1 ||
         (options_.syncs == Syncs::every_second && now - synced_at_ >= kSyncEvery);
}

void StateLog::take_waiting(Segment& segment) {
  if (!writing_.empty()) return;
  writing_.swap(segment.waiting);
  writing_place_ = segment.place;
}

/// If nothing waits for the disk, a write by io_uring would only be slower: many file systems let a worker
/// perform it.
void StateLog::write_at_once(Segment& segment, Milliseconds now) {
  take_waiting(segment);
  if (writing_.empty()) return;
  reserve(segment, now);
  const auto written = AppendFile::write_now(segment.file.get(), segment.written, writing_);
  if (!written) return refuse(written.error(), now);
  segment.written += writing_.size();
  written_place_ = writing_place_;
  writing_.clear();
  is_refused_ = false;
  if (!reserves_) clear_failure();
}

void StateLog::refuse(const Error& error, Milliseconds now) {
  failure_ = error.what;
  is_refused_ = true;
  retry_at_ = now + kRetryAfter;
}

void StateLog::clear_failure() {
  if (!is_distrusted_) failure_.reset();
}

void StateLog::write_next(Milliseconds now) {
  if (now < retry_at_) return;
  const bool is_lazy = options_.syncs != Syncs::always && !is_flushing_ && segments_.size() == 1 &&
                       segments_.front().has_durable_name;
  if (is_lazy && on_its_way_ == 0) write_at_once(segments_.front(), now);
  if (file_->is_busy() || now < retry_at_) return;
  const auto is_done = [&](const Segment& segment) {
    return writing_.empty() && segment.waiting.empty() && !segment.has_unsynced() && segment.has_durable_name;
  };
  while (segments_.size() > 1 && is_done(segments_.front())) {
    give_back(segments_.front());
    segments_.pop_front();
  }
  if (segments_.empty()) return;
  Segment& segment = segments_.front();
  is_naming_ = !segment.has_durable_name;
  if (is_naming_ && segment.durable == 0) return file_->begin(segment.file.get(), 0, segment.head, true);
  if (is_naming_) return file_->begin(directory_.descriptor(), 0, {}, true);
  if (!is_lazy) take_waiting(segment);
  is_syncing_ = is_sync_due(now);
  if (writing_.empty() && !(segment.has_unsynced() && is_syncing_)) return;
  if (writing_.empty()) writing_place_ = written_place_;
  reserve(segment, now);
  on_its_way_ = writing_.size();
  syncing_place_ = writing_place_;
  syncing_end_ = segment.written + on_its_way_;
  file_->begin(segment.file.get(), segment.written, writing_, is_syncing_);
}

/// Gives back the space that was reserved for a log that does not grow any more.
void StateLog::give_back(const Segment& segment) {
  // Without that, the space is only given back with the file.
  if (segment.reserved > segment.written)
    static_cast<void>(!::ftruncate(segment.file.get(), static_cast<off_t>(segment.written)));
}

/// A file system that cannot reserve space notices a full disk only when an event cannot be written.
void StateLog::reserve(Segment& segment, Milliseconds now) {
  if (!reserves_ || segments_.size() > 1) return;
  reserve_again_ = now + kRetryAfter;
  const std::uint64_t needed = segment.written + writing_.size() + kReserveBytes / 2;
  while (segment.reserved < needed) {
    if (::fallocate(segment.file.get(), 0, static_cast<off_t>(segment.reserved), kReserveBytes) == 0) {
      segment.reserved += kReserveBytes;
      continue;
    }
    if (errno == EINTR) continue;
    reserves_ = errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO;
    if (reserves_) failure_ = fail_errno("no space can be reserved for the log", errno).error().what;
    return;
  }
  clear_failure();
}

void StateLog::take_write(Milliseconds now) {
  const auto written = file_->finished();
  if (!written) return;
  const std::uint64_t bytes = std::exchange(on_its_way_, 0);
  if (!*written)
    return file_->has_sync_failed() ? distrust(written->error(), now) : refuse(written->error(), now);
  if (segments_.empty()) return;
  is_refused_ = false;
  Segment& segment = segments_.front();
  if (std::exchange(is_naming_, false)) {
    segment.has_durable_name = segment.durable > 0;
    segment.durable = std::max<std::uint64_t>(segment.durable, kFileHeadBytes);
    return;
  }
  if (bytes > 0) {
    segment.written += bytes;
    written_place_ = syncing_place_;
    writing_.clear();
    if (!reserves_) clear_failure();
  }
  if (!is_syncing_) return;
  synced_at_ = now;
  segment.durable = syncing_end_;
  durable_place_ = syncing_place_;
}

bool StateLog::can_seal() const {
  if (segments_.size() != 1 || !is_written()) return false;
  const Segment& segment = segments_.front();
  return segment.has_durable_name && segment.has_events && !segment.is_sealed && !segment.has_unsynced();
}

/// Writes a frame without bytes, which says that all others are on disk. Otherwise, damage to the last one
/// would look like a write that was cut off.
void StateLog::seal() {
  Segment& segment = segments_.front();
  segment.is_sealed = true;  // Or it was not possible, and is not tried again.
  std::vector<std::byte> frame;
  put_frame(frame, {segment.id, segment.end, segment.durable}, {});
  if (!AppendFile::write_now(segment.file.get(), segment.written, frame)) return;
  segment.seal = frame.size();
  segment.written = segment.end += frame.size();
}

void StateLog::note_begun_write(Milliseconds now) {
  if (file_->is_busy() && !busy_since_) busy_since_ = now;
}

void StateLog::submit(Milliseconds now) {
  if (is_copy_due(now)) begin_copy(now);
  write_next(now);
  note_begun_write(now);
}

/// A disk that hangs reports no error, so people learn of it only here.
void StateLog::look_at_slow_write(Milliseconds now) {
  if (!file_->is_busy()) {
    if (std::exchange(is_slow_, false))
      complaints_.push_back("the disk with " + options_.directory + " has finished the write after " +
                            std::to_string((now - *busy_since_) / 1000) + " s");
    return busy_since_.reset();
  }
  if (is_slow_ || now - busy_since_.value_or(now) < kSlowWrite) return;
  is_slow_ = true;
  complaints_.push_back("the disk with " + options_.directory + " has not finished a write for " +
                        std::to_string(kSlowWrite / 1000) + " s");
}

void StateLog::work(Milliseconds now) {
  take_copy(now);
  take_write(now);
  look_at_slow_write(now);
  if (failure_ && writing_.empty() && !segments_.empty() && now >= reserve_again_)
    reserve(segments_.front(), now);
  write_next(now);
  note_begun_write(now);
  if (now - synced_at_ >= kSealAfter && can_seal()) seal();
}

void StateLog::flush() {
  const auto has_unsynced = [](const Segment& segment) { return segment.has_unsynced(); };
  is_flushing_ = true;
  retry_at_ = 0;
  while (retry_at_ == 0 && (!is_written() || std::ranges::any_of(segments_, has_unsynced))) {
    write_next(synced_at_);
    if (!file_->is_busy()) break;
    file_->wait();
    take_write(synced_at_);
  }
  is_flushing_ = false;
}

Result<void> StateLog::end() {
  flush();
  // A state that is being loaded counts only when it is complete.
  if (is_void_) return {};
  if (!has_base_ || !is_written())
    return fail(Errc::io_error,
                "the disk does not have all writes: " + failure_.value_or("a copy is not complete"));
  if (can_seal()) {
    seal();
    static_cast<void>(file_->sync_now(segments_.front().file.get()));
  }
  give_back(segments_.front());
  return {};
}

bool StateLog::is_written() const {
  return !file_->is_busy() && writing_.empty() && !segments_.empty() && !is_distrusted_ &&
         std::ranges::all_of(segments_, [](const Segment& segment) { return segment.waiting.empty(); });
}

std::optional<Milliseconds> StateLog::next_deadline() const {
  std::optional<Milliseconds> next;
  const auto consider = [&](Milliseconds time) { next = next ? std::min(*next, time) : time; };
  if (failure_ && !segments_.empty()) consider(std::max(retry_at_, reserve_again_));
  const bool has_unsynced = !segments_.empty() && segments_.front().has_unsynced();
  if (can_seal()) consider(synced_at_ + kSealAfter);
  if (options_.syncs == Syncs::every_second && has_unsynced) consider(synced_at_ + kSyncEvery);
  if ((is_copy_wanted_ || !has_base_) && !copier_.is_busy() && !is_void_) consider(copy_again_);
  return next;
}

}  // namespace rdmc::kv
