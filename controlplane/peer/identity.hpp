// The identity by which peers know a process. The types are plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace rdmc::peer {

/// The random number that names one life of a process. It is never used again.
using Incarnation = std::array<std::byte, 16>;

/// The values by which other processes on the same host can find a process. The start time is included,
/// because process ids are used again. `thread` is the thread whose end counts as the end of the process.
struct ProcessIdentity {
  std::uint64_t host = 0;           ///< fabric::host_identity(). 0 if it is not known.
  std::uint64_t pid_namespace = 0;  ///< The namespace in which `pid` is valid.
  std::uint32_t pid = 0;
  std::uint64_t started = 0;  ///< The start time in clock ticks since the boot. 0 if /proc does not have it.
  std::uint32_t thread = 0;   ///< 0 means the process as a whole.
  std::uint64_t time_namespace = 0;  ///< The namespace in which `started` is valid. 0 if the kernel has none.

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Returns the identity of this process, with the calling thread as its `thread`. A field is 0 if /proc does
/// not have its value. `started` is 0 if /proc belongs to another pid namespace, because there another
/// process may have the same pid.
ProcessIdentity identity_of_self();

/// Returns the start time of the process with this pid ("self" means this process), in clock ticks since the
/// boot. Returns 0 if there is no such process.
std::uint64_t start_of_process(const std::string& pid);

struct Identity {
  Incarnation incarnation{};
  ProcessIdentity process;

  friend bool operator==(const Identity&, const Identity&) = default;
};

}  // namespace rdmc::peer
