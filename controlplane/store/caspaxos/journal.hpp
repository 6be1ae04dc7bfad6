// The format of an acceptor's journal: a mark, and then frames that hold one journal entry each. The first
// entry is whole. A frame has a length, a number, and a checksum over the rest of the frame. A frame is
// written only when the frame before it is durable. So a damaged frame without a good frame after it is a
// write that was cut off, and was never acknowledged. A damaged frame with a good frame after it means that
// the disk has lost durable data. This class does no I/O.
#pragma once

#include <cstdint>
#include <span>

#include "controlplane/store/caspaxos/acceptor.hpp"

namespace rdmc::store {

class Journal {
 public:
  /// Returns the bytes to append to the journal. For a whole entry, returns the content of a new journal.
  Bytes frame(const Acceptor::Write& write);

 private:
  std::uint64_t number_ = 0;  ///< The number of the last frame.
};

/// Returns the state that a journal holds. Errors: corrupt if the journal is damaged before its end, or has
/// no valid beginning.
Result<Durable> recover(std::span<const std::byte> journal);

}  // namespace rdmc::store
