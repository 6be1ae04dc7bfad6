// Pages that other processes of this host can map: a memfd that is sealed before another process gets its
// descriptor. Its size never changes, so no page is ever removed. This is necessary because an access to a
// removed page would kill the process. The process that makes the pages can prevent all other processes from
// mapping them for writing. Each side of such shared memory holds a SharedPages object, which unmaps the
// pages and closes the descriptor when it is destroyed. The pages live as long as at least one side holds
// them. Any thread may make a SharedPages object.
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

  /// Makes at least `bytes` zero bytes, rounded up to whole pages. Precondition: `bytes` > 0. Uses huge
  /// pages if the kernel has some and `bytes` is large enough. Errors: resource_limit, unsupported if the
  /// kernel cannot seal memory in this way (before 5.1).
  static Result<SharedPages> make(std::size_t bytes, Peers peers, Touch touch);
  /// Maps the pages that a peer made with the same `bytes`. Errors: protocol_error if the pages could shrink
  /// or are smaller than `bytes`, and the errors of mmap.
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

/// In a copy of this process that fork() has made: unmaps all SharedPages that the copy has inherited, so
/// that it changes nothing that other processes read. The objects that own them must not be used any more.
/// Must be called before the copy has other threads.
void unmap_shared_pages();

}  // namespace rdmc::memory
