#include "dataplane/sim/faults.hpp"

#include <algorithm>

namespace rdmc::sim {

std::string_view name(Fault fault) noexcept {
  switch (fault) {
    case Fault::loss: return "loss";
    case Fault::duplicate: return "duplicate";
    case Fault::reorder: return "reorder";
    case Fault::corrupt: return "corrupt";
    case Fault::delay: return "delay";
    case Fault::partition: return "partition";
    case Fault::queue_full: return "queue_full";
    case Fault::receive_full: return "receive_full";
    case Fault::kill: return "kill";
    case Fault::pause: return "pause";
  }
  __builtin_unreachable();
}

Fate draw_fate(const FaultRates& rates, Random& random, FaultCounts& counts) {
  Fate fate;
  if (!rates.any()) return fate;
  const auto strikes = [&](std::uint32_t parts_per_million, Fault fault) {
    if (parts_per_million == 0 || !random.chance(parts_per_million)) return false;
    counts.add(fault);
    return true;
  };
  const auto up_to = [&](Duration most) {
    return nanoseconds(static_cast<std::int64_t>(
        random.between(1, static_cast<std::uint64_t>(std::max<std::int64_t>(most.ns, 1)))));
  };
  if (strikes(rates.loss, Fault::loss)) {
    fate.lost = true;
    return fate;
  }
  fate.corrupted = strikes(rates.corrupt, Fault::corrupt);
  if (strikes(rates.reorder, Fault::reorder)) fate.extra = up_to(rates.reorder_by);
  if (strikes(rates.delay, Fault::delay)) fate.extra = fate.extra + up_to(rates.delay_by);
  if (strikes(rates.duplicate, Fault::duplicate)) {
    fate.duplicated = true;
    fate.duplicate_extra = up_to(rates.reorder_by);
  }
  return fate;
}

void corrupt(std::span<std::byte> bytes, Random& random) {
  const std::uint64_t bits = bytes.size() * 8;
  std::array<std::uint64_t, 3> flipped{};
  const std::size_t count = random.between(1, flipped.size());
  for (std::size_t i = 0; i < count;) {
    const std::uint64_t bit = random.below(bits);
    if (std::find(flipped.begin(), flipped.begin() + i, bit) != flipped.begin() + i) continue;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    flipped[i++] = bit;
  }
}

}  // namespace rdmc::sim
