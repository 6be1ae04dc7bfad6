// Owns one file descriptor, so that no error path leaks it. Descriptors belong to files and sockets, and they
// are passed between processes and threads. Every descriptor must be opened with close-on-exec. A Descriptor
// records its number as one that belongs to rdmc, because a child of fork() must close these descriptors
// (own_descriptors.hpp). A Descriptor can be moved but not copied. Any thread may use it.
#pragma once

#include <unistd.h>

#include <utility>

#include "dataplane/base/own_descriptors.hpp"

namespace rdmc {

class Descriptor {
 public:
  Descriptor() = default;
  /// Takes ownership of `fd`. -1 means no descriptor.
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
  /// Gives the descriptor to the caller, which owns it from then on.
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
