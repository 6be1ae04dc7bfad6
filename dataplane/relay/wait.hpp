// The transfer that keeps one member of a message from its next action: the earliest transfer of its
// schedule that is due and does not happen. Waits always lead to earlier steps (Schedule::minimum_slots). So
// among the waits of all members, the one with the lowest step identifies the transfer that holds up the
// whole group. Plain values.
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::relay {

struct Wait {
  enum class For : std::uint8_t {
    room,   ///< `peer` has granted no memory for a block that this member holds
    block,  ///< `peer` has not sent a block for which this member has granted memory
    link,   ///< a block is in flight to `peer` and not acknowledged
    /// This member's own message store: at the root, the next block must be read; at a receiver, the oldest
    /// block must be written.
    store,
  };
  std::uint64_t step = 0;
  Rank peer{};  ///< this member's own rank for For::store
  For what = For::room;
  friend bool operator==(const Wait&, const Wait&) = default;
};

}  // namespace rdmc::relay
