// Decides whether a test runs a long series completely or only a sample of it. A sample is enough in a run
// that only looks for undefined behaviour.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace rdmc {

/// Returns the number in the environment variable `name`, or `otherwise` if the variable is not set.
/// RDMC_SEEDS limits the number of seeds, for runs that only look for undefined behaviour. RDMC_FIRST_SEED
/// sets the first seed.
inline std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::stoull(value);
}

/// True if only a sample is to run. A run without sanitizers runs the complete series.
inline bool is_sampled() {
  return from_environment("RDMC_SEEDS", 0) != 0;
}

template <typename Count>
Count all_or(Count all, Count sample) {
  return is_sampled() ? sample : all;
}

}  // namespace rdmc
