// Makes the options of the kv scenario for each seed.
#pragma once

#include "apps/sim/kv_scenario.hpp"
#include "dataplane/base/random.hpp"
#include "tests/apps/sim/seed_runs.hpp"

namespace rdmc::sim_app {

/// Usually three to five servers, with one to eight faults of any kinds. A quarter of the runs have one kind
/// of fault again and again, and a few runs have no faults.
inline KvOptions kv_options_of(std::uint64_t seed) {
  Random random(seed);
  KvOptions options{.seed = seed};
  options.members = static_cast<std::uint32_t>(random.below(8) == 0 ? 2 : random.between(3, 5));
  options.clients = static_cast<std::uint32_t>(random.between(2, 7));
  options.steps = random.between(3000, 9000);
  if (random.below(20) == 0) return options;
  for (std::uint64_t faults = random.between(1, 8); faults > 0; --faults)
    ++options.strikes[random.below(options.strikes.size())];
  if (random.below(4) == 0)
    options.strikes[random.below(options.strikes.size())] +=
        static_cast<std::uint32_t>(random.between(3, 10));
  return options;
}

inline SeedsOutcome run_kv_seeds(std::uint64_t first, std::uint64_t count, std::uint64_t again,
                                 const KvPlanted& planted = {}) {
  return run_each_seed(first, count, again, [&](std::uint64_t seed) {
    KvOptions options = kv_options_of(seed);
    options.planted = planted;
    return run_kv(options);
  });
}

}  // namespace rdmc::sim_app
