// Who a process is to its peers. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace rdmc::peer {

/// Names one life of a process: random, and never used again.
using Incarnation = std::array<std::byte, 16>;

/// A process as others on its host can find it: its number, when it was started, because numbers come again,
/// and the thread whose end ends its part in everything.
struct ProcessIdentity {
  std::uint64_t host = 0;           ///< fabric::host_identity(); 0: not known
  std::uint64_t pid_namespace = 0;  ///< in which `pid` is meant
  std::uint32_t pid = 0;
  std::uint64_t started = 0;         ///< in clock ticks since the boot; 0: /proc does not say
  std::uint32_t thread = 0;          ///< 0: the process as a whole
  std::uint64_t time_namespace = 0;  ///< in which `started` is meant; 0: the kernel has none

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Of this process and the calling thread. All zeroes when /proc does not say; `started` is 0 when /proc is
/// that of another pid namespace, where our number is another process's.
ProcessIdentity identity_of_self();

/// When the process with this number ("self": ours) was started, in clock ticks since the boot; 0: it is not
/// there.
std::uint64_t start_of_process(const std::string& pid);

struct Identity {
  Incarnation incarnation{};
  ProcessIdentity process;

  friend bool operator==(const Identity&, const Identity&) = default;
};

}  // namespace rdmc::peer
