// Makes the options of the views scenario for each seed.
#pragma once

#include "apps/sim/views_scenario.hpp"
#include "dataplane/base/random.hpp"
#include "tests/apps/sim/seed_runs.hpp"

namespace rdmc::sim_app {

/// Groups of 1 to 8 members, small groups more often, on any network, with one to eight faults of any kinds.
inline ViewsOptions views_options_of(std::uint64_t seed) {
  Random random(seed);
  ViewsOptions options{.seed = seed};
  options.members = static_cast<std::uint32_t>(1 + random.below(random.between(1, 8)));
  for (std::uint64_t faults = random.between(1, 8); faults > 0; --faults)
    ++options.strikes[random.below(options.strikes.size())];
  options.restarts = random.below(4) != 0;
  const auto sometimes = [&](std::uint32_t most) {
    return random.below(2) == 0 ? 0u : static_cast<std::uint32_t>(random.below(most));
  };
  options.rates = {.loss = sometimes(100'000),
                   .duplicate = sometimes(50'000),
                   .reorder = sometimes(50'000),
                   .delay = sometimes(50'000)};
  options.faulty_time = milliseconds(static_cast<std::int64_t>(random.between(200, 2500)));
  // In half of the groups, members have leases.
  if (random.below(2) == 0) options.lease = milliseconds(static_cast<std::int64_t>(random.between(100, 200)));
  options.rotate = random.below(2) == 0;
  return options;
}

inline SeedsOutcome run_views_seeds(std::uint64_t first, std::uint64_t count, std::uint64_t again) {
  return run_each_seed(first, count, again,
                       [](std::uint64_t seed) { return run_views(views_options_of(seed)); });
}

}  // namespace rdmc::sim_app
