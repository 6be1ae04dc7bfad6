// The faults of a simulation: their kinds, their configured rates, and the number of times that each has
// happened. If a configured fault never happens, the test has not tested it. So all faults are counted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "dataplane/base/random.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::sim {

enum class Fault : std::uint8_t {
  loss,          ///< a datagram is lost
  duplicate,     ///< a datagram arrives twice
  reorder,       ///< a datagram is overtaken by datagrams that were sent shortly after it
  corrupt,       ///< one to three bits of a datagram flip
  delay,         ///< a datagram is delayed for so long that its receiver may no longer expect it
  partition,     ///< a datagram or stream was sent to a host that a partition separates from the sender
  queue_full,    ///< a link's queue was full
  receive_full,  ///< the receiver's buffer was full
  kill,          ///< a process was killed
  pause,         ///< a process was stopped for a while
};
inline constexpr std::size_t kFaultKinds = 10;
std::string_view name(Fault fault) noexcept;

class FaultCounts {
 public:
  void add(Fault fault) { ++counts_[static_cast<std::size_t>(fault)]; }
  std::uint64_t operator[](Fault fault) const { return counts_[static_cast<std::size_t>(fault)]; }

 private:
  std::array<std::uint64_t, kFaultKinds> counts_{};
};

/// How often each fault happens to a datagram, in parts per million. The faults are independent of each
/// other.
struct FaultRates {
  std::uint32_t loss = 0, duplicate = 0, reorder = 0, corrupt = 0, delay = 0;
  /// The extra delay is random, with a uniform distribution up to this value.
  Duration reorder_by = microseconds(50);
  Duration delay_by = milliseconds(20);

  bool any() const { return (loss | duplicate | reorder | corrupt | delay) != 0; }
};

/// The faults that happen to one datagram.
struct Fate {
  bool lost = false, duplicated = false, corrupted = false;
  Duration extra;            ///< added to the network's own delay
  Duration duplicate_extra;  ///< the extra delay of the second copy
};

/// Draws the faults of one datagram, and counts those that happen.
Fate draw_fate(const FaultRates& rates, Random& random, FaultCounts& counts);

/// Flips one to three different bits. A CRC-32 over up to 8 KiB always detects one to three flipped bits.
/// `bytes` must not be empty.
void corrupt(std::span<std::byte> bytes, Random& random);

}  // namespace rdmc::sim
