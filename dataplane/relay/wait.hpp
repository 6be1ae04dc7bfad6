// The transfer that a member of a message waits for: the earliest transfer of its schedule that is due and
// has not happened. A member always waits for a transfer of an earlier step (Schedule::minimum_slots). So
// among the waits of all members, the wait with the lowest step identifies the transfer that delays the whole
// group. The types are plain values.
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::relay {

struct Wait {
  enum class For : std::uint8_t {
    room,   ///< `peer` has granted no memory for a block that this member holds
    block,  ///< `peer` has not sent a block for which this member has granted memory
    link,   ///< a block is in flight to `peer` and not acknowledged
    /// This member waits for its own message store. At the root, the store must read the next block. At a
    /// receiver, it must write the oldest block.
    store,
  };
  std::uint64_t step = 0;
  Rank peer{};  ///< for For::store, this is the rank of this member itself
  For what = For::room;
  friend bool operator==(const Wait&, const Wait&) = default;
};

}  // namespace rdmc::relay
