// The messages between members, the check that they arrive unchanged, and the times.
#pragma once

#include <functional>
#include <span>

#include "bench/perf/rendezvous.hpp"

namespace rdmc::perf {

/// A function that is called between two parts of a long task. It lets the member answer its peers. A member
/// that is silent for a long time counts as dead.
using Meanwhile = std::function<void()>;

/// On the root, stamp() fills `bytes` for iteration `iteration` of sender `sender`, and publishes the digest
/// of these bytes. In every page, the bytes differ from those of any other message. On the other members,
/// matches_digest() returns true if their bytes have the same digest.
void stamp(Rendezvous& meet, std::span<std::byte> bytes, std::uint32_t iteration, std::uint32_t sender,
           const Meanwhile& meanwhile);
/// Returns the word at the beginning of a page, which is at offset `at` of the message.
std::uint64_t stamp_of(std::size_t at, std::uint32_t iteration, std::uint32_t sender);
bool matches_digest(const Rendezvous& meet, std::span<const std::byte> bytes, std::uint32_t sender,
                    const Meanwhile& meanwhile);
/// record_start() and record_finish() record an iteration's start and end. The earliest start of a root and
/// the latest end of a member count.
void record_start(Rendezvous& meet, std::uint32_t iteration);
void record_finish(Rendezvous& meet, std::uint32_t iteration);

}  // namespace rdmc::perf
