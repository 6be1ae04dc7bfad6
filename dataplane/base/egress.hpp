// The delay between the sending of a packet and its departure on the link of its host. A plain value that any
// thread may use.
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc {

/// The send queue of a host in front of its own link, as far as the host can measure it.
struct Egress {
  /// If a packet is sent now, its first bit is on the link after this time.
  Duration wait{};
  /// The rate at which the queue drains. 0 if this rate has not been measured. In that case the queue counts
  /// as short.
  std::uint64_t bytes_per_second = 0;
};

}  // namespace rdmc
