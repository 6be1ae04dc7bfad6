// Mappings of private anonymous memory at addresses that suit huge pages and whole page tables.
#pragma once

#include <cstddef>

namespace rdmc::memory {

/// The size of a huge page, and the number of bytes whose addresses one page table of ordinary pages covers.
/// Both begin at a multiple of their size.
inline constexpr std::size_t kHugePageBytes = 2 << 20;

/// Maps `bytes` bytes, a multiple of the page size and not 0, with the protection `protection` of mmap. The
/// address is `offset` bytes above a multiple of kHugePageBytes. `offset` is a multiple of the page size.
/// Returns MAP_FAILED and sets errno if there are not enough addresses or not enough memory.
void* map_aligned(std::size_t bytes, int protection, std::size_t offset = 0);

}  // namespace rdmc::memory
