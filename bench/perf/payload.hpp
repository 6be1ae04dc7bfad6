// The messages between members, the check that they arrive unchanged, and the times.
#pragma once

#include <functional>
#include <span>

#include "bench/perf/rendezvous.hpp"

namespace rdmc::perf {

/// Called between pieces of work, because a member that is silent for long counts as dead.
using Meanwhile = std::function<void()>;

/// On the root: fills `bytes` for iteration `iteration` of sender `sender`, with different bytes in every
/// page than any other message, and publishes their digest. On the others, matches_digest() returns true if
/// theirs is the same.
void stamp(Rendezvous& meet, std::span<std::byte> bytes, std::uint32_t iteration, std::uint32_t sender,
           const Meanwhile& meanwhile);
/// The word at the beginning of a page, at offset `at` of the message.
std::uint64_t stamp_of(std::size_t at, std::uint32_t iteration, std::uint32_t sender);
bool matches_digest(const Rendezvous& meet, std::span<const std::byte> bytes, std::uint32_t sender,
                    const Meanwhile& meanwhile);
/// Record an iteration's start and end. The earliest start of a root and the latest end of a member count.
void record_start(Rendezvous& meet, std::uint32_t iteration);
void record_finish(Rendezvous& meet, std::uint32_t iteration);

}  // namespace rdmc::perf
