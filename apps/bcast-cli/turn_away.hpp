// Informs a sender, inside its own session, of the reason why it is refused. Without this message, the sender
// would see only that its connection ended. The object keeps itself alive until the sender has read the
// message or has taken too long. Runs on the control loop's thread.
#pragma once

#include <memory>

#include "controlplane/connect/channel.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

/// Refuses a sender. `channel` must not have been started. `loop` must be the channel's own loop and must
/// outlive the channel. `cause` must continue a sentence that begins with the host's name. `ticket` is
/// released at the end. The caller can count its copies to limit how many senders are being refused at the
/// same time.
void turn_away(control::ControlLoop& loop, control::Channel channel, Error cause,
               std::shared_ptr<void> ticket);

}  // namespace rdmc::bcast
