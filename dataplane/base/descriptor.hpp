// Owns one file descriptor, so that no path of an error leaks it. Descriptors are handed between
// files, sockets, processes and threads; every one is opened close-on-exec, and known to be ours when the
// process forks. Move-only; any thread.
#pragma once

#include <unistd.h>

#include <utility>

#include "dataplane/base/own_descriptors.hpp"

namespace rdmc {

class Descriptor {
 public:
  Descriptor() = default;
  /// Takes over `fd`; -1 stands for none.
  explicit Descriptor(int fd) noexcept : fd_(fd) { note_own(fd); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// The caller owns the descriptor from here on.
  int release() noexcept {
    forget_own(fd_);
    return std::exchange(fd_, -1);
  }
  void reset() noexcept {
    if (fd_ >= 0) ::close(release());
  }

 private:
  int fd_ = -1;
};

}  // namespace rdmc
