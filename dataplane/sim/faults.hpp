// What can go wrong, how often it is asked to, and how often it did. A test that asks for a fault and never
// sees it struck has tested nothing, so everything here counts.
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
  loss,          ///< a datagram vanishes
  duplicate,     ///< it arrives twice
  reorder,       ///< it is overtaken by those sent shortly after it
  corrupt,       ///< one to three of its bits flip
  delay,         ///< it is held for long, and may arrive when nobody expects it any more
  partition,     ///< it was sent where nothing gets through
  queue_full,    ///< a link's queue had no room
  receive_full,  ///< the receiver's buffer had no room
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

/// How often each datagram is struck, in parts per million, each independent of the others.
struct FaultRates {
  std::uint32_t loss = 0, duplicate = 0, reorder = 0, corrupt = 0, delay = 0;
  Duration reorder_by = microseconds(50);  ///< the extra time is uniform up to this
  Duration delay_by = milliseconds(20);

  bool any() const { return (loss | duplicate | reorder | corrupt | delay) != 0; }
};

/// The fate of one datagram.
struct Fate {
  bool lost = false, duplicated = false, corrupted = false;
  Duration extra;            ///< held for this long beyond the network's own delay
  Duration duplicate_extra;  ///< the second copy
};

/// Draws a fate and counts what strikes.
Fate draw_fate(const FaultRates& rates, Random& random, FaultCounts& counts);

/// Flips one to three different bits: so few that a CRC-32 over up to 8 KiB is sure to notice. `bytes` not
/// empty.
void corrupt(std::span<std::byte> bytes, Random& random);

}  // namespace rdmc::sim
