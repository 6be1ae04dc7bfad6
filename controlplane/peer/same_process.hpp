// The proof, given on one connection, that another connection ends at the same process. The functions have no
// state. They may be called from any thread.
#pragma once

#include "controlplane/peer/messages.hpp"

namespace rdmc::peer {

/// Returns a proof for `reader`, which has sent `nonce`. It proves that `writer` has the secret of another
/// connection between these two processes. The proof covers the incarnations of `reader` and `writer` in this
/// order. So it proves nothing if the reader sends it back to the writer.
Proof proof_of(const Token& secret, const Identity& reader, const Identity& writer, const Token& nonce);

}  // namespace rdmc::peer
