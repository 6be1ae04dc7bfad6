// What stands between a packet and its host's link. A plain value; any thread.
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc {

/// The queue of a host in front of its own link, as far as the host can tell.
struct Egress {
  Duration wait{};                     ///< of a packet that is sent now, until its first bit is on the link
  std::uint64_t bytes_per_second = 0;  ///< that leave the queue; 0: nobody has seen it drain, it is short
};

}  // namespace rdmc
