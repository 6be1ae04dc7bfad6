// What the members send each other, and how they know that it has arrived as it was sent; and when.
#pragma once

#include <functional>
#include <span>

#include "bench/perf/rendezvous.hpp"

namespace rdmc::perf {

/// Called between pieces of work: a member that is silent for long counts as dead.
using Meanwhile = std::function<void()>;

/// Root: fills `bytes` for iteration `iteration` of sender `sender`, different from every other's in every
/// page, and publishes their digest. Others: true if theirs is the same.
void stamp(Rendezvous& meet, std::span<std::byte> bytes, std::uint32_t iteration, std::uint32_t sender,
           const Meanwhile& meanwhile);
/// What begins each page, at offset `at` of the message.
std::uint64_t stamp_of(std::size_t at, std::uint32_t iteration, std::uint32_t sender);
bool matches_digest(const Rendezvous& meet, std::span<const std::byte> bytes, std::uint32_t sender,
                    const Meanwhile& meanwhile);
/// Record an iteration's start and end: the first root's and the latest member's count.
void record_start(Rendezvous& meet, std::uint32_t iteration);
void record_finish(Rendezvous& meet, std::uint32_t iteration);

}  // namespace rdmc::perf
