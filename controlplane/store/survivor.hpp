// The operator's word after a majority of the store's nodes has lost its state: what one node keeps is all
// that is left, and the store begins again with it. What a lost majority had agreed on and this node had not
// is gone, so nobody but an operator decides that.
#pragma once

#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::store {

/// Waits for the node's answer; not on the loop's thread. Returns when what the node keeps is durable in its
/// new place. Errors: peer_failed (the node has no state, or cannot be reached), timed_out, and those of
/// connect.
Result<void> name_survivor(control::ControlLoop& loop, const Address& node,
                           const control::ChannelOptions& options);

}  // namespace rdmc::store
