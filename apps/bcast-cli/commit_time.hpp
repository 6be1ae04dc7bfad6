// How long a receiver may take to make a file durable, for whoever coordinates: the sender, or the survivor
// that leads on. Pure.
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::bcast {

/// Bytes a second that a receiver's disk makes durable at least, all of a file being in memory at first.
inline constexpr std::uint64_t kSlowestDisk = 1 << 20;

/// What a file of so many bytes adds to session::Timing::commit_timeout.
inline Duration time_to_sync(std::uint64_t bytes) {
  return seconds(static_cast<std::int64_t>(bytes / kSlowestDisk));
}

}  // namespace rdmc::bcast
