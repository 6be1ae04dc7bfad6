// Signs from the operating system that a process is dead. One is its exit, which a pidfd shows on the same
// host. The other one is that no process listens at its address any more. The end of a connection alone
// proves nothing. Everything runs on the control loop.
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

/// Calls `exited` once when the process has ended. If the identity has a thread and the kernel is Linux 6.9
/// or newer, the end of that thread counts. It is reported some milliseconds sooner, because a killed process
/// first frees its memory. `exited` is also called if the process has ended already. Returns null if the
/// process is not on `self`'s host or cannot be watched.
std::unique_ptr<Watching> watch_exit(control::ControlLoop& loop, const ProcessIdentity& self,
                                     const ProcessIdentity& process, std::function<void()> exited);

/// Tries to connect to `address`. Calls `answered` once. The argument is true if the host says that no
/// process listens there. `answered` is not called while the host does not answer.
std::unique_ptr<Watching> probe_listener(control::ControlLoop& loop, const Address& address,
                                         std::function<void(bool refused)> answered);

}  // namespace rdmc::membership
