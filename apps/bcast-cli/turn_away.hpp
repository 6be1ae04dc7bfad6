// Tells a sender in its own session why it is not served, instead of leaving it with a connection that ended.
// Keeps itself until the sender has read that or has taken too long. On the control loop's thread.
#pragma once

#include <memory>

#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

/// `channel` has not been started; `loop` is its own and outlives this. `cause` reads after the host's name.
/// `ticket` is let go at the end: its owner counts how many are under way.
void turn_away(control::ControlLoop& loop, control::Channel channel, Error cause,
               std::shared_ptr<void> ticket);

}  // namespace rdmc::bcast
