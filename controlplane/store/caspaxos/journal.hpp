// The format of an acceptor's journal: a mark, and then frames that contain one journal entry each. The first
// entry contains the whole state. A frame has a length, a number, and a checksum over the rest of the frame.
// A frame is written only when the preceding frame is durable. So if a damaged frame has no good frame after
// it, its write was cut off and was never acknowledged. If a damaged frame has a good frame after it, the
// disk has lost durable data. This class does no I/O.
#pragma once

#include <cstdint>
#include <span>

#include "controlplane/store/caspaxos/acceptor.hpp"

namespace rdmc::store {

class Journal {
 public:
  /// Returns the bytes that must be appended to the journal. If the entry contains the whole state, returns
  /// the content of a new journal instead.
  Bytes frame(const Acceptor::Write& write);

 private:
  std::uint64_t number_ = 0;  ///< The number of the last frame.
};

/// Returns the state that the bytes of a journal contain. Errors: corrupt if the journal is damaged before
/// its end, or has no valid beginning.
Result<Durable> recover(std::span<const std::byte> journal);

}  // namespace rdmc::store
