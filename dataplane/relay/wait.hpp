// What keeps one member of a message from its next move: the earliest transfer of its schedule that is due
// and does not happen. Waits always lead to earlier steps (Schedule::minimum_slots), so of all members' waits
// for each other the one with the lowest step names the two ends of the transfer that holds up everybody.
// Plain values.
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::relay {

struct Wait {
  enum class For : std::uint8_t {
    room,   ///< `peer` has granted no memory for a block that we hold
    block,  ///< `peer` owes a block that we have room for
    link,   ///< a block is on its way to `peer`, unacknowledged
    store,  ///< our own: a source's next block is to be read, or a receiver's oldest to be written
  };
  std::uint64_t step = 0;
  Rank peer{};  ///< our own rank with For::store
  For what = For::room;
  friend bool operator==(const Wait&, const Wait&) = default;
};

}  // namespace rdmc::relay
