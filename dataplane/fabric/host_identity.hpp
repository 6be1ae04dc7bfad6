// Tells whether two processes share one network stack: then there is no link between them that could be
// congested, and later the shm fabric applies.
#pragma once

#include <cstdint>

namespace rdmc::fabric {

/// By which a running kernel is known.
inline constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

/// A hash of the boot id and the network namespace of the calling process. 0 if the system does not tell; 0
/// equals nobody's.
std::uint64_t host_identity();

}  // namespace rdmc::fabric
