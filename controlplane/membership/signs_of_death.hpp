// What proves that a process is dead, as far as an operating system says it: its exit, seen by a pidfd on the
// same host, and that nobody listens where it did. That a connection ended proves nothing by itself. The
// control loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::membership {

/// A process as others on its host can find it: its number, and when it was started, since numbers come
/// again; and the thread without which it takes part in nothing.
struct ProcessIdentity {
  std::uint64_t host = 0;           ///< fabric::host_identity(); 0: not known
  std::uint64_t pid_namespace = 0;  ///< in which `pid` is meant
  std::uint32_t pid = 0;
  std::uint64_t started = 0;  ///< in clock ticks since the boot
  std::uint32_t thread = 0;   ///< 0: the process as a whole

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Of this process and the calling thread. All zeroes when /proc does not say.
ProcessIdentity identity_of_self();

/// Ends what it watches for when it is destroyed, on the loop's thread.
class Watching {
 public:
  virtual ~Watching() = default;
};

/// Calls `exited` once when that process has ended, or its thread, which a kernel from 6.9 on says some
/// milliseconds sooner: a process that is killed gives back its memory first. Be it at once. Nothing, when it
/// is not of `self`'s host or cannot be watched.
std::unique_ptr<Watching> watch_exit(control::ControlLoop& loop, const ProcessIdentity& self,
                                     const ProcessIdentity& process, std::function<void()> exited);

/// Tries to connect to `address`, and calls `answered` once with whether its host says that nobody listens
/// there. Never, while it says nothing.
std::unique_ptr<Watching> probe_listener(control::ControlLoop& loop, const Address& address,
                                         std::function<void(bool refused)> answered);

}  // namespace rdmc::membership
