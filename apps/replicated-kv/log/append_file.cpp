#include "apps/replicated-kv/log/append_file.hpp"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::kv {

namespace {

std::unexpected<Error> refused(int error) {
  return fail_errno("the disk refuses the log", error);
}

/// The write and the synchronization are two linked requests: the kernel begins the second one when the first
/// one has succeeded.
class UringFile final : public AppendFile {
 public:
  ~UringFile() override {
    if (!is_made_) return;
    drain();
    forget_own(ring_.ring_fd);
    io_uring_queue_exit(&ring_);
  }

  Result<void> start() {
    constexpr unsigned kRequests = 4;
    if (const int failed = io_uring_queue_init(kRequests, &ring_, 0); failed != 0)
      return fail_errno("io_uring", -failed);
    is_made_ = true;
    note_own(ring_.ring_fd);
    return {};
  }

  int descriptor() const override { return ring_.ring_fd; }

  void begin(int file, std::uint64_t offset, std::span<const std::byte> bytes, bool syncs) override {
    is_busy_ = true;
    has_sync_failed_ = false;
    file_ = file;
    end_ = offset + bytes.size();
    rest_ = bytes;
    syncs_ = syncs;
    submit();
  }

  std::optional<Result<void>> finished() override {
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      const int result = entry->res;
      const bool is_write = entry->user_data == kWrite;
      io_uring_cqe_seen(&ring_, entry);
      --requests_;
      // If a write is cut short, the kernel does not begin the linked request.
      if (is_write && result > 0) rest_ = rest_.subspan(static_cast<std::size_t>(result));
      if (result == -EINTR || result == -EAGAIN || result == -ECANCELED) continue;
      if (result < 0 && error_ == 0) error_ = -result;
      if (is_write && result == 0 && error_ == 0) error_ = ENOSPC;
      if (!is_write && result >= 0) syncs_ = false;
      if (!is_write && result < 0) has_sync_failed_ = true;
    }
    if (!is_busy_ || requests_ > 0) return std::nullopt;
    if (error_ == 0 && (!rest_.empty() || syncs_)) {
      submit();
      return std::nullopt;
    }
    is_busy_ = false;
    if (const int error = std::exchange(error_, 0); error != 0) return refused(error);
    return Result<void>();
  }

 private:
  static constexpr std::uint64_t kWrite = 1, kSync = 2;
  static constexpr std::size_t kMostBytes = 1 << 30;  // of one request

  void submit() {
    requests_ = 0;
    if (!rest_.empty()) {
      io_uring_sqe* const write = io_uring_get_sqe(&ring_);
      const auto count = static_cast<unsigned>(std::min<std::size_t>(rest_.size(), kMostBytes));
      io_uring_prep_write(write, file_, rest_.data(), count, end_ - rest_.size());
      io_uring_sqe_set_data64(write, kWrite);
      if (syncs_) write->flags |= IOSQE_IO_LINK;
      ++requests_;
    }
    if (syncs_) {
      io_uring_sqe* const sync = io_uring_get_sqe(&ring_);
      io_uring_prep_fsync(sync, file_, IORING_FSYNC_DATASYNC);
      io_uring_sqe_set_data64(sync, kSync);
      ++requests_;
    }
    while (io_uring_submit(&ring_) == -EINTR) {
    }
  }

  io_uring ring_{};
  bool is_made_ = false, syncs_ = false;
  int file_ = -1, error_ = 0, requests_ = 0;
  std::uint64_t end_ = 0;  // of the write, in the file
  std::span<const std::byte> rest_;
};

/// For kernels and containers that do not permit io_uring.
class ThreadFile final : public AppendFile {
 public:
  ~ThreadFile() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  Result<void> start() {
    done_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!done_) return fail_errno("eventfd", errno);
    auto thread = start_signal_masked_thread("for the log", [this] { run(); });
    if (!thread) return std::unexpected(thread.error());
    thread_ = std::move(*thread);
    return {};
  }

  int descriptor() const override { return done_.get(); }

  void begin(int file, std::uint64_t offset, std::span<const std::byte> bytes, bool syncs) override {
    is_busy_ = true;
    {
      const std::lock_guard lock(mutex_);
      job_ = Job{file, offset, bytes, syncs};
    }
    changed_.notify_all();
  }

  std::optional<Result<void>> finished() override {
    eventfd_t ignored;
    ::eventfd_read(done_.get(), &ignored);
    const std::lock_guard lock(mutex_);
    auto outcome = std::exchange(outcome_, std::nullopt);
    if (!outcome) return std::nullopt;
    is_busy_ = false;
    has_sync_failed_ = outcome->has_sync_failed;
    return std::move(outcome->result);
  }

 private:
  struct Job {
    int file = -1;
    std::uint64_t offset = 0;
    std::span<const std::byte> bytes;
    bool syncs = false;
  };
  struct Outcome {
    Result<void> result;
    bool has_sync_failed = false;
  };

  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return job_ || ends_; });
      if (!job_) return;
      const Job job = *std::exchange(job_, std::nullopt);
      lock.unlock();
      auto outcome = perform(job);
      lock.lock();
      outcome_ = std::move(outcome);
      ::eventfd_write(done_.get(), 1);
    }
  }

  static Outcome perform(const Job& job) {
    if (auto written = write_now(job.file, job.offset, job.bytes); !written) return {std::move(written)};
    while (job.syncs && ::fdatasync(job.file) != 0)
      if (errno != EINTR) return {refused(errno), true};
    return {};
  }

  Descriptor done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Job> job_;          // protected by mutex_
  std::optional<Outcome> outcome_;  // protected by mutex_
  bool ends_ = false;               // protected by mutex_
  std::thread thread_;
};

}  // namespace

Result<void> AppendFile::write_now(int file, std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return refused(count == 0 ? ENOSPC : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

void AppendFile::wait() const {
  pollfd one{.fd = descriptor(), .events = POLLIN, .revents = 0};
  while (::poll(&one, 1, -1) < 0 && errno == EINTR) {
  }
}

Result<void> AppendFile::sync_now(int file) {
  begin(file, 0, {}, true);
  for (;;) {
    if (auto result = finished()) return std::move(*result);
    wait();
  }
}

void AppendFile::drain() {
  while (is_busy_ && !finished()) wait();
}

Result<std::unique_ptr<AppendFile>> AppendFile::make(bool without_uring) {
  auto uring = std::make_unique<UringFile>();
  if (!without_uring && uring->start()) return std::unique_ptr<AppendFile>(std::move(uring));
  auto thread = std::make_unique<ThreadFile>();
  if (auto started = thread->start(); !started) return std::unexpected(started.error());
  return std::unique_ptr<AppendFile>(std::move(thread));
}

}  // namespace rdmc::kv
