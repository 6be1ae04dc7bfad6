// Two connections may end at the same other process. This says how one side proves it to the other, and which
// of the two connections both sides use. Stateless; any thread.
#pragma once

#include "controlplane/peer/connection.hpp"
#include "controlplane/peer/messages.hpp"

namespace rdmc::peer {

/// Proves to the process that dials that the one that listens has the secret of a connection between the two.
/// It names both, so that what one of them says as a listener is no proof of the other.
Proof proof_of(const Token& secret, const Identity& dialer, const Identity& listener, const Token& nonce);

/// Whether both sides use `one` rather than `other`, when both connections are between us and the same
/// process: the one that the smaller incarnation has dialed, and of two of these the one with the smaller
/// secret.
bool is_preferred(const Connection& one, const Connection& other, const Identity& ours);

}  // namespace rdmc::peer
