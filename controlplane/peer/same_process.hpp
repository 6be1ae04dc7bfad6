// The proof on one connection that another connection ends at the same process. Stateless. May be used from
// any thread.
#pragma once

#include "controlplane/peer/messages.hpp"

namespace rdmc::peer {

/// Returns the proof for `reader`, which has sent `nonce`, that `writer` has the secret of a connection
/// between the two. The proof covers the incarnations of both in this order. So if the reader sends the proof
/// back to the writer, it proves nothing.
Proof proof_of(const Token& secret, const Identity& reader, const Identity& writer, const Token& nonce);

}  // namespace rdmc::peer
