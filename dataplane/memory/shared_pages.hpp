// Pages that other processes of this host can map: a memfd that is sealed before anybody else gets its
// descriptor. Its size never changes, so that nobody who maps it is killed by a page that went away, and its
// maker may keep everybody else from mapping it for writing. Both sides of such memory hold one of these; it
// unmaps and closes when destroyed, and the pages live as long as one side has them. Any thread may make one.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::memory {

class SharedPages {
 public:
  enum class Peers : std::uint8_t { may_read, may_write };

  /// At least `bytes` > 0 zero bytes, rounded up to whole pages; huge ones where the kernel has some and
  /// `bytes` is worth it. Errors: resource_limit, unsupported (a kernel without sealed memory: before 5.1).
  static Result<SharedPages> make(std::size_t bytes, Peers peers, Touch touch);
  /// Those that a peer made, of the same `bytes`. Errors: protocol_error (they could shrink, or are smaller),
  /// those of mapping.
  static Result<SharedPages> attach(Descriptor descriptor, std::size_t bytes, Peers we);

  SharedPages(SharedPages&& other) noexcept
      : descriptor_(std::move(other.descriptor_)), bytes_(std::exchange(other.bytes_, {})) {}
  SharedPages& operator=(SharedPages&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~SharedPages();

  std::span<std::byte> bytes() const noexcept { return bytes_; }
  const Descriptor& descriptor() const noexcept { return descriptor_; }

 private:
  SharedPages(Descriptor descriptor, std::span<std::byte> bytes)
      : descriptor_(std::move(descriptor)), bytes_(bytes) {}
  static Result<SharedPages> map(Descriptor descriptor, std::size_t bytes, int protection);

  Descriptor descriptor_;
  std::span<std::byte> bytes_;
};

}  // namespace rdmc::memory
