// The operator's word after a majority of the store's nodes has lost its state: what one node keeps is all
// that is left, and the store begins again with it. What a lost majority had agreed on and this node had not
// is gone, so nobody but an operator decides that.
#pragma once

#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::store {

/// The node asks the others first, for at most 3 s, and refuses while a majority of them has its state: what
/// they keep would be lost. `force`: it does not ask. Waits for the node's answer; not on the loop's thread.
/// Returns when what the node keeps is durable in its new place. Errors: peer_failed (the node has no state,
/// is not needed as the survivor, or cannot be reached), timed_out, and those of connect.
Result<void> name_survivor(control::ControlLoop& loop, const Address& node,
                           const control::ChannelOptions& options, bool force = false);

}  // namespace rdmc::store
