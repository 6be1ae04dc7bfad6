// Packets are counted with 64 bits inside the core, so that nothing here wraps; a PSN is the low 24 bits of
// that count, shifted by the connection's first PSN (IBTA vol. 1, 9.7.2).
#pragma once

#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

/// The number of a packet in one direction of a connection, 0 for the first.
using Sequence = std::int64_t;

class SequenceSpace {
 public:
  explicit constexpr SequenceSpace(Psn first) : first_(first) {}
  constexpr Psn psn(Sequence sequence) const {
    return Psn(first_.value() + static_cast<std::uint32_t>(sequence));
  }
  /// The packet with this PSN that is less than 2^23 away from `reference`; negative for one before the
  /// first.
  constexpr Sequence nearest(Sequence reference, Psn p) const { return reference + (p - psn(reference)); }

 private:
  Psn first_;
};

}  // namespace rdmc::roce
