// The format of an acceptor's journal: a mark, and frames of one record each, of which the first is whole. A
// frame has a length, a number, and a checksum over all of it. A frame is written only when the one before is
// durable. So a damaged frame with nothing behind it is a write that was torn, and was never acknowledged; a
// damaged one with a good one behind it is a disk that has lost what it had promised to keep. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "controlplane/store/caspaxos/acceptor.hpp"

namespace rdmc::store {

class Journal {
 public:
  /// The bytes to be appended; for a whole record, those of a new journal.
  Bytes frame(const Acceptor::Write& write);

 private:
  std::uint64_t number_ = 0;  ///< of the last frame
};

/// What a journal holds. Errors: corrupt.
Result<Durable> recover(std::span<const std::byte> journal);

}  // namespace rdmc::store
