// How a process proves on one connection that another one ends at it as well. Stateless; any thread.
#pragma once

#include "controlplane/peer/messages.hpp"

namespace rdmc::peer {

/// Shows `reader`, which has sent `nonce`, that `writer` has the secret of a connection between the two. It
/// names both in this order, so that what one of them says is no proof when the other one repeats it.
Proof proof_of(const Token& secret, const Identity& reader, const Identity& writer, const Token& nonce);

}  // namespace rdmc::peer
