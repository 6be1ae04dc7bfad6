// Copies payload past the cache: for blocks that are written once and not read again soon, as a message into
// an application's buffer. Writing them into the cache would first read their old bytes, and push out the
// block that other receivers are about to read. Any thread.
#pragma once

#include <cstddef>
#include <span>

namespace rdmc::fabric::shm {

/// `to` and `from` have one length and do not overlap. When it returns the bytes are as visible to others as
/// after memcpy.
void copy_past_cache(std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace rdmc::fabric::shm
