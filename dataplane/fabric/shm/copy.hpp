// The two ways to copy payload. Past the cache: a message larger than the cache is not read again from it,
// and writing it there would first read its old bytes, and push out the block that other receivers are about
// to read. Through the cache: what will all be there still when it is passed on, and when the application
// reads it. Any thread.
#pragma once

#include <cstddef>
#include <span>

namespace rdmc::fabric::shm {

/// Memory of so many bytes may be filled through the cache; half of the last level's.
std::size_t cached_bytes();

/// Both: `to` and `from` have one length and do not overlap. When it returns the bytes are as visible to
/// others as after memcpy.
void copy_past_cache(std::span<std::byte> to, std::span<const std::byte> from);
void copy_through_cache(std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace rdmc::fabric::shm
