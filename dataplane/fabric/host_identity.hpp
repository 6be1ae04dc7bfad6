// Tells whether two processes share one network stack. If they do, no link between them can be congested, and
// they can use the shm fabric.
#pragma once

#include <cstdint>

namespace rdmc::fabric {

/// Identifies the running kernel.
inline constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

/// A hash of the boot id and of the calling process's network namespace. Returns 0 if the system does not
/// report these. Two processes with the value 0 must not be taken as sharing a network stack.
std::uint64_t host_identity();

}  // namespace rdmc::fabric
