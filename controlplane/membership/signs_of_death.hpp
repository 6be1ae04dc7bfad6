// Signs from the operating system that a process is dead. The first sign is the exit of the process, which a
// pidfd shows on the same host. The second sign is that no process listens at its address any more. The end
// of a connection alone proves nothing. Everything runs on the control loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/peer/identity.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::membership {

using peer::identity_of_self;
using peer::ProcessIdentity;

/// A watch. It ends when this object is destroyed, which must happen on the control loop.
class Watching {
 public:
  virtual ~Watching() = default;
};

/// Calls `exited` once when the process has ended, also if it has ended before this call. If the identity has
/// a thread and the kernel is Linux 6.9 or newer, the end of that thread counts as the end of the process.
/// The end of the thread is reported some milliseconds sooner, because a killed process frees its memory
/// before it ends. Returns null if the process is not on `self`'s host or cannot be watched.
std::unique_ptr<Watching> watch_exit(control::ControlLoop& loop, const ProcessIdentity& self,
                                     const ProcessIdentity& process, std::function<void()> exited);

/// Returns true if the process is on `self`'s host and has exited, with all its threads. Returns false if it
/// runs, and also if this cannot be known. Does not wait.
bool has_exited(const ProcessIdentity& self, const ProcessIdentity& process);

/// Tries to connect to `address`, and calls `answered` once with the result. The argument is true if the host
/// answers that no process listens there. While the host does not answer, `answered` is not called.
std::unique_ptr<Watching> probe_listener(control::ControlLoop& loop, const Address& address,
                                         std::function<void(bool refused)> answered);

}  // namespace rdmc::membership
