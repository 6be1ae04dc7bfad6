// The operator's command after a majority of the store's nodes has lost its state. The state of one node
// becomes the state of the whole store. Everything that the lost majority had agreed on and that this node
// does not have is then lost. So only an operator may give this command.
#pragma once

#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::store {

/// Makes `node` the surviving node, and waits for its answer. The node first asks the other nodes, for at
/// most 3 s. It refuses if the nodes that answer and the node itself include a majority that has not lost the
/// store's state, because the store can then continue without an operator. If `force` is true, the node does
/// not ask the others. Returns after the node has made its new configuration durable. Must not be called on
/// the loop's thread. Errors: peer_failed if the node has no state, is not needed as the surviving node, or
/// cannot be reached; timed_out; and the errors of connect.
Result<void> name_survivor(control::ControlLoop& loop, const Address& node,
                           const control::ChannelOptions& options, bool force = false);

}  // namespace rdmc::store
