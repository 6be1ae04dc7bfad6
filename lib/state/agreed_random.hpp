// The random numbers that all replicas agree on.
#pragma once

#include <cstdint>

namespace rdmc::state {

/// The agreed random number of an entry (SplitMix64).
inline std::uint64_t random_of(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t mixed = seed + (index + 1) * 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31);
}

}  // namespace rdmc::state
