// Makes the options of the store scenario for each seed.
#pragma once

#include "apps/sim/store_scenario.hpp"
#include "dataplane/base/random.hpp"
#include "tests/apps/sim/seed_runs.hpp"

namespace rdmc::sim_app {

/// Usually three nodes, with or without disks, on any network, with one to ten faults of any kinds. A third
/// of the runs have a storm of faults in addition.
inline StoreOptions store_options_of(std::uint64_t seed) {
  Random random(seed);
  StoreOptions options{.seed = seed};
  options.nodes = random.below(10) == 0 ? 1 : 3;
  options.disks = random.below(3) != 0;
  options.clients = static_cast<std::uint32_t>(random.between(2, 5));
  options.groups = static_cast<std::uint32_t>(random.between(1, 3));
  for (std::uint64_t faults = random.between(1, 10); faults > 0; --faults)
    ++options.strikes[random.below(options.strikes.size())];
  const bool storm = random.below(3) == 0;
  // A storm has many faults of two kinds, and all clients use the same group.
  for (std::uint64_t kinds = storm ? 2 : 0; kinds > 0; --kinds)
    options.strikes[random.below(options.strikes.size())] +=
        static_cast<std::uint32_t>(random.between(5, 40));
  if (storm) options.groups = 1;
  const auto sometimes = [&](std::uint32_t most) {
    return random.below(2) == 0 ? 0u : static_cast<std::uint32_t>(random.below(most));
  };
  options.rates = {.loss = sometimes(100'000),
                   .duplicate = sometimes(50'000),
                   .reorder = sometimes(50'000),
                   .delay = sometimes(storm ? 300'000 : 50'000)};
  options.faulty_time = milliseconds(static_cast<std::int64_t>(random.between(200, 1500)));
  options.think = storm ? microseconds(500) : milliseconds(static_cast<std::int64_t>(random.between(1, 20)));
  return options;
}

inline SeedsOutcome run_store_seeds(std::uint64_t first, std::uint64_t count, std::uint64_t again) {
  return run_each_seed(first, count, again,
                       [](std::uint64_t seed) { return run_store(store_options_of(seed)); });
}

}  // namespace rdmc::sim_app
