// Finds out whether two processes share one network stack. If they do, no link between them can be congested,
// and they can use the shm fabric.
#pragma once

#include <cstdint>

namespace rdmc::fabric {

/// The kernel's file with a random id, which is different after each boot.
inline constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";

/// Returns a hash of the boot id and of the calling process's network namespace. Returns 0 if the system does
/// not report both of them. Two processes with the value 0 must not be regarded as sharing a network stack.
std::uint64_t host_identity();

}  // namespace rdmc::fabric
