// The few system calls on files that everything here shares: a descriptor that closes itself, and reads and
// writes that go on after EINTR and after a short count. Blocking; each caller brings its own thread.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

/// Owns one descriptor, or none (-1).
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~FileDescriptor() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

/// Reads until `into` is full or the file ends; returns how many bytes came. `name` is for the error.
Result<std::size_t> read_at(int fd, std::span<std::byte> into, std::uint64_t offset, std::string_view name);

/// Writes all of `bytes`. Errors: no_space (disk or quota full, file size limit), io_error, …, naming `name`.
Result<void> write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset, std::string_view name);

/// The whole of a small text: a list, a key. "-" is standard input. Errors: as open(2) and read(2), and
/// invalid_argument when there are more than `limit` bytes.
Result<std::string> read_small_file(const std::string& path, std::size_t limit);

}  // namespace rdmc::bcast
