#include "dataplane/memory/aligned_mapping.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

namespace rdmc::memory {

void* map_aligned(std::size_t bytes, int protection, std::size_t offset) {
  const std::size_t mapped = bytes + kHugePageBytes;
  if (mapped < bytes) return errno = ENOMEM, MAP_FAILED;
  void* const base = mmap(nullptr, mapped, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return MAP_FAILED;
  auto* const first = static_cast<std::byte*>(base);
  const std::size_t before = (offset - reinterpret_cast<std::uintptr_t>(first)) % kHugePageBytes;
  if (before != 0) munmap(first, before);
  munmap(first + before + bytes, kHugePageBytes - before);
  return first + before;
}

}  // namespace rdmc::memory
