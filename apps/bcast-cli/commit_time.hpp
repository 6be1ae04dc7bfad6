// Computes how long a receiver may take to make a file durable. Used by the coordinator, which is the sender
// or the survivor that has become the coordinator. Pure.
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::bcast {

/// The rate, in bytes per second, that every receiver's disk is expected to reach. At the commit, all bytes
/// of a file may still be in memory.
inline constexpr std::uint64_t kSlowestDisk = 1 << 20;

/// Returns the time that is added to session::Timing::commit_timeout for a file of `bytes` bytes.
inline Duration time_to_sync(std::uint64_t bytes) {
  return seconds(static_cast<std::int64_t>(bytes / kSlowestDisk));
}

}  // namespace rdmc::bcast
