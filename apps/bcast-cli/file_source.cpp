#include "apps/bcast-cli/file_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <utility>

#include "dataplane/base/address_kind.hpp"
#include "dataplane/base/no_memory.hpp"
#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::bcast {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a fifo";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Result<SourceFile> SourceFile::open(const std::string& path, std::optional<std::uint32_t> block_size) {
  // With O_NONBLOCK, opening a fifo does not wait for a writer. It has no effect on a regular file.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return fail_errno(fmt::format("cannot open {}", path), errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail_errno(fmt::format("cannot look at {}", path), errno);
  if (!S_ISREG(status.st_mode))
    return fail(Errc::invalid_argument,
                fmt::format("{} is {}, not a regular file", path, kind_of(status.st_mode)));
  (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);  // This hint makes the kernel read further
                                                                   // ahead.
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return SourceFile(path, std::move(file), status,
                    FileShape{size, block_size.value_or(default_block_size(size))}, true);
}

Result<SourceFile> SourceFile::of(const ReceivedFile& file) {
  auto descriptor = file.duplicate();
  if (!descriptor) return std::unexpected(descriptor.error());
  return SourceFile(file.path(), std::move(*descriptor), {}, file.shape(), false);
}

SourceFile::SourceFile(std::string path, Descriptor file, const struct stat& status, FileShape shape,
                       bool hashed)
    : path_(std::move(path)), file_(std::move(file)), status_(status), shape_(shape) {
  if (hashed) hash_.emplace(shape);
}

std::uint64_t SourceFile::allocated_bytes() const {
  return std::min(shape_.size, static_cast<std::uint64_t>(status_.st_blocks) * 512);
}

std::optional<Digest> SourceFile::digest() const {
  if (!hash_ || !hash_->is_complete()) return std::nullopt;
  return hash_->value();
}

Result<void> SourceFile::check_unchanged() const {
  struct stat now {};
  if (::fstat(file_.get(), &now) != 0) return fail_errno(fmt::format("cannot look at {}", path_), errno);
  if (now.st_size != status_.st_size)
    return fail(Errc::io_error, fmt::format("{} changed its size from {} to {} bytes while it was read",
                                            path_, status_.st_size, now.st_size));
  if (now.st_mtim.tv_sec != status_.st_mtim.tv_sec || now.st_mtim.tv_nsec != status_.st_mtim.tv_nsec)
    return fail(Errc::io_error, fmt::format("{} was written to while it was read", path_));
  return {};
}

std::size_t ring_bytes(FileShape shape, const Address& address) {
  constexpr std::uint64_t kWindow = 32 << 20;
  constexpr std::uint64_t kWindowInMachine = 8 << 20;
  constexpr std::uint64_t kLeastSlots = 16;
  const auto window = is_loopback(address) ? kWindowInMachine : kWindow;
  return std::min(shape.blocks(), std::max(kLeastSlots, window / shape.block_size)) * shape.block_size;
}

Result<std::unique_ptr<FileSource>> FileSource::start(SourceFile& file, BlockMap map,
                                                      std::span<std::byte> ring, FileSourceOptions options) {
  std::unique_ptr<FileSource> source(new FileSource(file, std::move(map), ring, std::move(options)));
  auto thread = start_signal_masked_thread("to read a file", [raw = source.get()] { raw->read_all(); });
  if (!thread) return std::unexpected(thread.error());
  source->reader_ = std::move(*thread);
  return source;
}

FileSource::FileSource(SourceFile& file, BlockMap map, std::span<std::byte> ring, FileSourceOptions options)
    : file_(file),
      blocks_(file.shape(), std::move(map)),
      slots_(std::min<std::uint64_t>(blocks_.count(), ring.size() / file.shape().block_size)),
      ring_(ring.first(slots_ * file.shape().block_size)),
      options_(std::move(options)) {
  assert(slots_ > 0);
}

FileSource::~FileSource() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  if (reader_.joinable()) reader_.join();
}

Result<std::uint64_t> FileSource::available() {
  if (failed_.load(std::memory_order_acquire)) return std::unexpected(error_);
  return available_.load(std::memory_order_acquire);
}

std::optional<Digest> FileSource::digest() const {
  if (available_.load(std::memory_order_acquire) < blocks_.count()) return std::nullopt;
  return file_.digest();
}

void FileSource::released(std::uint64_t limit) {
  {
    const std::lock_guard lock(mutex_);
    if (limit <= released_) return;
    released_ = limit;
  }
  changed_.notify_one();
}

bool FileSource::wait_for_slot(std::uint64_t index) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ending_ || index < released_ + slots_; });
  return !ending_;
}

bool FileSource::wait_for_rate(std::chrono::steady_clock::time_point start, std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  if (options_.limit_rate) {
    const double due_seconds = static_cast<double>(bytes) * 8 / static_cast<double>(*options_.limit_rate);
    // The time is limited to a time that the clock's type can represent.
    const std::chrono::duration<double> due(std::min(due_seconds, 1e9));
    const auto until = start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(due);
    changed_.wait_until(lock, until, [&] { return ending_; });
  }
  return !ending_;
}

void FileSource::read_all() {
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t bytes = 0;
  for (std::uint64_t index = 0; index < blocks_.count(); ++index) {
    bytes += blocks_.bytes(index);
    if (!wait_for_slot(index) || !wait_for_rate(start, bytes)) return;
    if (auto done = or_no_memory([&] { return read_block(index); }); !done) {
      error_ = std::move(done.error());
      failed_.store(true, std::memory_order_release);
    } else {
      available_.store(index + 1, std::memory_order_release);
    }
    if (options_.wake) options_.wake();
    if (failed_) return;
  }
}

Result<void> FileSource::read_block(std::uint64_t index) {
  const auto block = blocks_.real(index);
  const auto slot = ring_.subspan(index % slots_ * file_.shape_.block_size, file_.shape_.bytes(block));
  const auto count = read_at(file_.file_.get(), slot, file_.shape_.offset(block), file_.path_);
  if (!count) return std::unexpected(count.error());
  if (*count < slot.size()) {
    return fail(Errc::io_error, fmt::format("{} was truncated while it was read: it had {} bytes",
                                            file_.path_, file_.shape_.size));
  }
  if (!file_.hash_) return {};
  auto& hash = *file_.hash_;
  if (auto done = hash.add(block, slot, file_.file_.get(), file_.path_); !done) return done;
  if (index + 1 < blocks_.count()) return {};
  // No receiver can have the whole file before the last block is sent. So if a change is found now, no
  // receiver has committed the file.
  if (auto done = hash.catch_up(file_.shape_.blocks(), file_.file_.get(), file_.path_); !done) return done;
  if (auto done = file_.check_unchanged(); !done) return done;
  if (!options_.announce) return {};
  options_.announce(hash.value());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ending_ || announced_; });
  return {};
}

void FileSource::announced() {
  {
    const std::lock_guard lock(mutex_);
    announced_ = true;
  }
  changed_.notify_one();
}

}  // namespace rdmc::bcast
