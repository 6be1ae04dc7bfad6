// The system calls on files that this folder shares: a descriptor that closes itself, and functions that read
// or write until they are done, even after EINTR or a short count. The functions block, so callers use
// threads that may block.
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

/// Owns one descriptor. The value -1 means that it owns no descriptor.
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

/// Reads until `into` is full or the file ends. Returns the number of bytes that were read. `name` is for the
/// error's text.
Result<std::size_t> read_at(int fd, std::span<std::byte> into, std::uint64_t offset, std::string_view name);

/// Writes all of `bytes`. Errors: no_space (the disk or quota is full, or the file size limit is reached),
/// io_error and others. The error's text contains `name`.
Result<void> write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset, std::string_view name);

/// Returns the whole content of a small text file, such as a hostlist or a key. "-" means standard input.
/// Errors: those of open(2) and read(2), and invalid_argument if the file is longer than `limit` bytes.
Result<std::string> read_small_file(const std::string& path, std::size_t limit);

}  // namespace rdmc::bcast
