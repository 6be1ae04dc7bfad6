// What proves that a process is dead, as far as an operating system says it: its exit, seen by a pidfd on the
// same host, and that nobody listens where it did. That a connection ended proves nothing by itself. The
// control loop's thread.
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
