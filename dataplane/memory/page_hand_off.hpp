// Hands received bytes over to the application by their pages, in place of a copy (RDMC, section 3.2). The
// pages are moved by mremap, and no byte is touched. The pages that the application had there are given back
// to the kernel.
#pragma once

#include <cstddef>
#include <span>

#include "dataplane/memory/aligned_mapping.hpp"

namespace rdmc::memory {

/// The least number of bytes for which moving pages is faster than a copy on all machines that were measured,
/// also on those with slow page tables (docs/benchmarks.md). A copy of fewer bytes takes at most 2 ms.
inline constexpr std::size_t kLeastHandOff = 16 << 20;

/// Copies the bytes of `source` to `destination`, which are equally long and do not overlap. If both begin at
/// the same offset in a huge page, the huge pages that are whole in both ranges are moved instead, provided
/// that they have at least `least` bytes together. The kernel can then move whole page tables. Returns the
/// number of bytes copied. Afterwards `source` holds unspecified bytes, but stays mapped.
///
/// Pages are moved only into private anonymous memory that is not locked. For all other memory, and if the
/// kernel refuses (before Linux 5.7, or with too many mappings), everything is copied. The advice (madvise)
/// and the protection of the moved range become those of `source`.
///
/// Preconditions: `source` is private anonymous memory, as that of an Arena. During the call no thread uses
/// one of the ranges, and no device knows their pages.
std::size_t hand_off(std::span<std::byte> source, std::span<std::byte> destination,
                     std::size_t least = kLeastHandOff) noexcept;

/// True if hand_off() would try to move pages between these ranges.
bool moves_pages(std::span<const std::byte> source, std::span<const std::byte> destination,
                 std::size_t least = kLeastHandOff) noexcept;

}  // namespace rdmc::memory
