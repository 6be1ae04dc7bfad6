// How much of a long series runs: all of it, or a sample in a run that only looks for undefined behaviour.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace rdmc {

/// RDMC_SEEDS narrows a run where the same code is only checked for undefined behaviour, RDMC_FIRST_SEED
/// moves it.
inline std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::stoull(value);
}

/// Whether that is such a run: the run without sanitizers has all.
inline bool is_sampled() {
  return from_environment("RDMC_SEEDS", 0) != 0;
}

template <typename Count>
Count all_or(Count all, Count sample) {
  return is_sampled() ? sample : all;
}

}  // namespace rdmc
