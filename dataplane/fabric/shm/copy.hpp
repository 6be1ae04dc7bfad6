// The two ways to copy payload. Past the cache: for memory that is larger than the cache. Writing it into the
// cache would first read its old bytes, and would evict the block that other receivers are about to read.
// Through the cache: for memory that is still in the cache when it is sent on and when the application reads
// it. Any thread.
#pragma once

#include <cstddef>
#include <span>

namespace rdmc::fabric::shm {

/// Memory of at most this size may be filled through the cache: half the size of the last-level cache.
std::size_t cached_bytes();

/// For both: `to` and `from` must have the same length and must not overlap. When the function returns, other
/// threads see the bytes as after memcpy.
void copy_past_cache(std::span<std::byte> to, std::span<const std::byte> from);
void copy_through_cache(std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace rdmc::fabric::shm
