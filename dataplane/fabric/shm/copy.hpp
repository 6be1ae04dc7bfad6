// The two methods to copy payload. Any thread may use both methods.
// - Past the cache, for memory that is larger than the cache. Writing such memory into the cache would first
//   read its old bytes, and would evict the block that other receivers are about to read.
// - Through the cache, for memory that is still in the cache when it is sent on and when the application
//   reads it.
#pragma once

#include <cstddef>
#include <span>

namespace rdmc::fabric::shm {

/// Returns the largest size of memory that may be filled through the cache: half the size of the last-level
/// cache.
std::size_t cached_bytes();

/// In both functions, `to` and `from` must have the same length and must not overlap. When a function
/// returns, other threads see the bytes as after memcpy.
void copy_past_cache(std::span<std::byte> to, std::span<const std::byte> from);
void copy_through_cache(std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace rdmc::fabric::shm
