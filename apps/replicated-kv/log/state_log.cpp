#include "apps/replicated-kv/log/state_log.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

namespace rdmc::kv {

namespace {

/// The space of a log is reserved in pieces of this size, when less than half of it is left. So a full disk
/// is noticed before an event cannot be written.
constexpr std::uint64_t kReserveBytes = 4 << 20;
constexpr Milliseconds kSyncEvery = 1000, kRetryAfter = 1000, kCopyAgainAfter = 5000;
constexpr std::size_t kMostLogs = 16;

std::string name_of(const char* kind, std::uint64_t number) {
  return std::string(kind) + "-" + std::to_string(number);
}

/// A copy has this name until it is complete.
std::string new_name_of(std::uint64_t number) {
  return std::string("new-") + kCopyName + "-" + std::to_string(number);
}

}  // namespace

Result<std::unique_ptr<StateLog>> StateLog::open(const StateLogOptions& options, LoggedState& state) {
  auto directory = Directory::open(options.directory);
  if (!directory) return std::unexpected(directory.error());
  const auto found = recover(*directory, state);
  if (!found) return std::unexpected(found.error());
  std::unique_ptr<StateLog> log(new StateLog(options, std::move(*directory), state));
  auto file = AppendFile::make(options.without_uring);
  if (!file) return std::unexpected(file.error());
  log->file_ = std::move(*file);
  if (auto started = log->start(*found); !started) return std::unexpected(started.error());
  return log;
}

StateLog::~StateLog() {
  if (file_) file_->drain();
}

/// The log always goes on in a new file. So nothing follows an end that was cut off.
Result<void> StateLog::start(const Recovered& found) {
  for (const std::string& useless : found.useless) directory_.remove(useless);
  const auto unfinished = directory_.list(std::string("new-") + kCopyName);
  if (!unfinished) return std::unexpected(unfinished.error());
  for (const auto& [number, name] : *unfinished) directory_.remove(name);
  if (auto synced = directory_.sync(); !synced) return synced;
  place_ = written_place_ = durable_place_ = found.place;
  last_number_ = found.last_number;
  copy_bytes_ = found.copy_bytes;
  log_bytes_ = found.log_bytes;
  logs_ = found.logs;
  has_base_ = true;
  is_void_ = false;
  return begin_segment(FileKind::log);
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
  segment.waiting = encode(FileHead{kind, segment.id, place_});
  segment.end = segment.waiting.size();
  segment.place = place_;
  ++logs_;
  return {};
}

void StateLog::append(const OrderedEvent& event) {
  const auto logged = encode_logged(event);
  Segment& segment = segments_.back();
  put_frame(segment.waiting, {segment.id, segment.end, segment.durable}, logged);
  const std::uint64_t bytes = kFrameHeadBytes + logged.size();
  segment.end += bytes;
  log_bytes_ += bytes;
  segment.place = place_ = {.epoch = event.epoch, .position = event.position + 1, .time = event.time};
}

// -- Another state --

void StateLog::load_begins() {
  copier_.stop();
  is_void_ = true;
}

void StateLog::load_ended(const StoredState& place, Milliseconds now) {
  // The older files stay until the copy is complete, but nothing more needs to be in them.
  file_->drain();
  segments_.clear();
  writing_.clear();
  is_naming_ = false;
  place_ = written_place_ = durable_place_ = place;
  is_void_ = has_base_ = false;
  begin_copy(now);
}

Result<void> StateLog::restore() {
  if (!is_void_) return {};
  flush();
  segments_.clear();
  writing_.clear();
  const auto found = recover(directory_, state_);
  if (!found) return std::unexpected(found.error());
  return start(*found);
}

// -- Copies --

bool StateLog::is_copy_due(Milliseconds now) const {
  if (copier_.is_busy() || is_void_ || now < copy_again_) return false;
  const bool is_long = log_bytes_ > std::max(options_.least_log_bytes, copy_bytes_) || logs_ > kMostLogs;
  return !has_base_ || is_copy_wanted_ || is_long;
}

/// The state in memory is that after all events that were appended. A new log begins here.
void StateLog::begin_copy(Milliseconds now) {
  is_copy_wanted_ = false;
  copy_again_ = now + kCopyAgainAfter;
  auto begun = begin_segment(has_base_ ? FileKind::log : FileKind::log_after_copy);
  if (begun) {
    copy_number_ = last_number_;
    log_bytes_ = 0;
    auto file = directory_.create(new_name_of(copy_number_));
    begun = file ? copier_.begin(std::move(*file), {FileKind::copy, next_id(), place_},
                                 [this](const auto& write) { state_.save(write); })
                 : std::unexpected(file.error());
  }
  if (begun) return;
  complaints_.push_back(begun.error().what);
  is_copy_wanted_ = true;
}

void StateLog::take_copy(Milliseconds now) {
  const auto bytes = copier_.finished();
  if (!bytes) return;
  const auto finished = *bytes ? finish_copy(**bytes) : std::unexpected(bytes->error());
  if (finished) return;
  complaints_.push_back(finished.error().what);
  directory_.remove(new_name_of(copy_number_));
  copy_again_ = now + kCopyAgainAfter;
  is_copy_wanted_ = true;
}

Result<void> StateLog::finish_copy(std::uint64_t bytes) {
  const auto renamed = directory_.rename(new_name_of(copy_number_), name_of(kCopyName, copy_number_));
  if (!renamed) return renamed;
  has_base_ = true;
  copy_bytes_ = bytes;
  logs_ = last_number_ - copy_number_ + 1;
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
  if (!reserves_) failure_.reset();
}

void StateLog::refuse(const Error& error, Milliseconds now) {
  failure_ = error.what;
  retry_at_ = now + kRetryAfter;
}

void StateLog::write_next(Milliseconds now) {
  if (now < retry_at_) return;
  const bool is_lazy = options_.syncs != Syncs::always && !is_flushing_ && segments_.size() == 1;
  if (is_lazy && on_its_way_ == 0) write_at_once(segments_.front(), now);
  if (file_->is_busy() || now < retry_at_) return;
  const auto is_done = [&](const Segment& segment) {
    return writing_.empty() && segment.waiting.empty() && !segment.has_unsynced() && segment.has_durable_name;
  };
  while (segments_.size() > 1 && is_done(segments_.front())) segments_.pop_front();
  if (segments_.empty()) return;
  Segment& segment = segments_.front();
  is_naming_ = !segment.has_durable_name;
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
    reserves_ = errno == ENOSPC || errno == EDQUOT || errno == EIO;
    if (reserves_) failure_ = fail_errno("no space can be reserved for the log", errno).error().what;
    return;
  }
  failure_.reset();
}

void StateLog::take_write(Milliseconds now) {
  const auto written = file_->finished();
  if (!written) return;
  const std::uint64_t bytes = std::exchange(on_its_way_, 0);
  if (!*written) return refuse(written->error(), now);
  if (segments_.empty()) return;
  Segment& segment = segments_.front();
  if (std::exchange(is_naming_, false)) {
    segment.has_durable_name = true;
    return;
  }
  if (bytes > 0) {
    segment.written += bytes;
    written_place_ = syncing_place_;
    writing_.clear();
    if (!reserves_) failure_.reset();
  }
  if (!is_syncing_) return;
  synced_at_ = now;
  segment.durable = syncing_end_;
  durable_place_ = syncing_place_;
}

void StateLog::submit(Milliseconds now) {
  if (is_copy_due(now)) begin_copy(now);
  write_next(now);
}

void StateLog::work(Milliseconds now) {
  take_copy(now);
  take_write(now);
  if (failure_ && writing_.empty() && !segments_.empty() && now >= reserve_again_)
    reserve(segments_.front(), now);
  write_next(now);
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

bool StateLog::is_written() const {
  return !file_->is_busy() && writing_.empty() &&
         std::ranges::all_of(segments_, [](const Segment& segment) { return segment.waiting.empty(); });
}

std::optional<Milliseconds> StateLog::next_deadline() const {
  std::optional<Milliseconds> next;
  const auto consider = [&](Milliseconds time) { next = next ? std::min(*next, time) : time; };
  if (failure_) consider(std::max(retry_at_, reserve_again_));
  const bool has_unsynced = !segments_.empty() && segments_.front().has_unsynced();
  if (options_.syncs == Syncs::every_second && has_unsynced) consider(synced_at_ + kSyncEvery);
  if (is_copy_wanted_ || !has_base_) consider(copy_again_);
  return next;
}

}  // namespace rdmc::kv
