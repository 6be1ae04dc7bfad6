#include "dataplane/memory/arena.hpp"

#include <sys/mman.h>

#include <cerrno>

#include "dataplane/memory/aligned_mapping.hpp"
#include "dataplane/memory/shared_pages.hpp"

namespace rdmc::memory {

Result<Arena> Arena::make(std::size_t bytes, Touch touch) {
  const std::size_t size = round_up_to_page(bytes);
  if (size < bytes) return fail(Errc::resource_limit, "more memory than there are addresses");
  if (size == 0) return Arena();
  const int access = PROT_READ | PROT_WRITE;
  const bool large = size >= kHugePageBytes;
  void* const base =
      large ? map_aligned(size, access) : mmap(nullptr, size, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return fail_errno("cannot map " + std::to_string(size) + " bytes of memory", errno);
  // Large buffers are accessed from their beginning to their end. Huge pages avoid most of the TLB misses.
  // If the kernel has no huge pages, the call fails, and normal pages are used.
  if (large) madvise(base, size, MADV_HUGEPAGE);
  Arena arena({static_cast<std::byte*>(base), size});
  if (touch == Touch::now && madvise(base, size, MADV_POPULATE_WRITE) != 0) {
    if (errno != EINVAL) return fail_errno("cannot get " + std::to_string(size) + " bytes of memory", errno);
    for (std::size_t at = 0; at < size; at += kPageBytes)
      arena.bytes_[at] = std::byte{0};  // touches the page on kernels before Linux 5.14
  }
  return arena;
}

Result<Arena> Arena::make_shared(std::size_t bytes, Touch touch) {
  if (bytes == 0) return Arena();
  auto pages = SharedPages::make(bytes, SharedPages::Peers::may_read, touch);
  if (!pages) return std::unexpected(pages.error());
  Arena arena(pages->bytes());
  arena.shared_ = std::make_shared<const SharedPages>(std::move(*pages));
  return arena;
}

Arena::~Arena() {
  if (!bytes_.empty() && !shared_) munmap(bytes_.data(), bytes_.size());
}

}  // namespace rdmc::memory
