// Inside the RC core packets are counted with 64 bits, so the count never wraps. A PSN is the low 24 bits of
// the sum of that count and the connection's first PSN (IBTA vol. 1, 9.7.2).
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

/// The number of a packet in one direction of a connection, from 0.
using Sequence = std::int64_t;

class SequenceSpace {
 public:
  explicit constexpr SequenceSpace(Psn first) : first_(first) {}
  constexpr Psn psn(Sequence sequence) const {
    return Psn(first_.value() + static_cast<std::uint32_t>(sequence));
  }
  /// Returns the packet with this PSN that is nearest to `reference`: it is less than 2^23 away. The result
  /// is negative for a packet before the first one.
  constexpr Sequence nearest(Sequence reference, Psn p) const { return reference + (p - psn(reference)); }

 private:
  Psn first_;
};

}  // namespace rdmc::roce
