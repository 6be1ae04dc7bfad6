#include "dataplane/memory/page_hand_off.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>

namespace rdmc::memory {
namespace {

/// A part of two ranges that lies at the same offset in both.
struct Part {
  std::size_t offset = 0, bytes = 0;
};

/// Returns the part that consists of whole huge pages in both ranges, or an empty part if it has fewer than
/// `least` bytes.
Part moved_part(std::span<const std::byte> a, std::span<const std::byte> b, std::size_t least) {
  const auto at_a = reinterpret_cast<std::uintptr_t>(a.data()),
             at_b = reinterpret_cast<std::uintptr_t>(b.data());
  if ((at_a - at_b) % kHugePageBytes != 0) return {};
  const std::size_t offset = (kHugePageBytes - at_a % kHugePageBytes) % kHugePageBytes;
  if (offset >= a.size()) return {};
  const std::size_t bytes = (a.size() - offset) / kHugePageBytes * kHugePageBytes;
  return bytes < least ? Part{} : Part{offset, bytes};
}

/// Gives up the contents of `memory`: until a page is written again, the kernel may drop it. Returns true
/// only for private anonymous memory that is not locked. The result is needed as a check, because mremap
/// replaces memory of any kind.
bool discard(std::span<std::byte> memory) {
  return madvise(memory.data(), memory.size(), MADV_FREE) == 0;
}

/// Moves the pages of `source` to `destination`. Returns false if the kernel refuses. Then nothing has
/// changed, except that `destination` holds unspecified bytes.
bool move_pages(std::span<std::byte> source, std::span<std::byte> destination) {
  const std::size_t bytes = source.size();
  // The pages go to free addresses first. With MREMAP_FIXED, an mremap that fails may already have unmapped
  // the destination (before Linux 6.17), and another thread could map something there. Without it, a call
  // that fails changes nothing. These addresses are aligned, and free unless another thread maps something
  // now. Then the kernel takes others.
  void* const hint = map_aligned(bytes, PROT_NONE);
  if (hint == MAP_FAILED) return false;
  munmap(hint, bytes);
  void* const moved = mremap(source.data(), bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, hint);
  if (moved == MAP_FAILED) return false;
  if (mremap(moved, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, destination.data()) != MAP_FAILED)
    return true;
  // All pages are of one mapping now. So the kernel refuses for two reasons only: the process has too many
  // mappings, or the kernel has no memory for itself. In the second case, it may have unmapped the
  // destination already. Then mmap maps it again. If the destination is still mapped, mmap fails and changes
  // nothing.
  mmap(destination.data(), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
       -1, 0);
  std::memcpy(source.data(), moved, bytes);
  munmap(moved, bytes);
  return false;
}

}  // namespace

bool moves_pages(std::span<const std::byte> source, std::span<const std::byte> destination,
                 std::size_t least) noexcept {
  return moved_part(source, destination, least).bytes != 0;
}

std::size_t hand_off(std::span<std::byte> source, std::span<std::byte> destination,
                     std::size_t least) noexcept {
  assert(source.size() == destination.size());
  Part part = moved_part(source, destination, least);
  const auto pages = destination.subspan(part.offset, part.bytes);
  if (!pages.empty() && (!discard(pages) || !move_pages(source.subspan(part.offset, part.bytes), pages)))
    part = {};
  const std::size_t end = part.offset + part.bytes;
  std::ranges::copy(source.first(part.offset), destination.begin());
  std::ranges::copy(source.subspan(end), destination.subspan(end).begin());
  return source.size() - part.bytes;
}

}  // namespace rdmc::memory
