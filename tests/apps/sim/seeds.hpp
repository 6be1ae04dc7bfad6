// Makes the options of the bcast scenario for each seed.
#pragma once

#include <cmath>

#include "dataplane/base/random.hpp"
#include "tests/apps/sim/seed_runs.hpp"

namespace rdmc::sim_app {

/// Puts the members into random racks. The uplinks have the rate of the links.
inline relay::Racks racks_of(std::uint32_t members, Random& random) {
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t left = members; left > 0; left -= sizes.back())
    sizes.push_back(static_cast<std::uint32_t>(random.between(1, left)));
  return *relay::Racks::of(sizes);
}

/// Groups of 2 to 16 members and files of 0 to 3 MB, with any mix of faults. Small files are more frequent,
/// because they reach more special cases. Half of the runs use the binomial pipeline.
inline ScenarioOptions options_of(std::uint64_t seed) {
  Random random(seed);
  ScenarioOptions options;
  options.seed = seed;
  options.members = static_cast<std::uint32_t>(random.between(2, 16));
  const double exponent = static_cast<double>(random.below(1'000'000)) * 1e-6;
  options.size_bytes = static_cast<std::uint64_t>(std::pow(3.0 * 1024 * 1024 + 1, exponent)) - 1;
  options.block_bytes = static_cast<std::uint32_t>(random.between(1, 32) * 4096);
  options.mtu = random.below(2) == 0 ? 1500 : 9000;
  options.selective_repeat = random.below(4) != 0;
  options.rate = random.below(2) == 0 ? 1'000'000'000 : 10'000'000'000;
  const auto sometimes = [&](std::uint32_t most) {
    return random.below(2) == 0 ? 0u : static_cast<std::uint32_t>(random.below(most));
  };
  options.rates.loss = sometimes(20'000);
  options.rates.duplicate = sometimes(20'000);
  options.rates.reorder = sometimes(30'000);
  options.rates.corrupt = sometimes(5'000);
  options.rates.delay = sometimes(1'000);
  options.kills = static_cast<std::uint32_t>(random.below(3));
  options.pauses = random.below(4) == 0 ? 1 : 0;
  options.slow_disks = random.below(4) == 0 ? 1 : 0;
  options.full_disks = random.below(8) == 0 ? 1 : 0;
  const auto root_fault = random.below(8);
  options.root_kills = root_fault < 2 ? 1 : 0;
  options.root_stops = root_fault == 2 ? 1 : 0;
  if (random.below(2) == 0) options.algorithm = relay::kAlgorithms[random.below(relay::kAlgorithms.size())];
  if (options.algorithm == relay::Algorithm::hybrid || random.below(8) == 0)
    options.racks = racks_of(options.members, random);
  // The rate is low, so that the transfer takes long enough to find a straggler.
  if (random.below(32) == 0 && options.members >= 5) {
    options.finds_stragglers = true;
    options.size_bytes = random.between(2 << 20, 5 << 20);
    options.rate = 100'000'000;
    options.slow_hosts[static_cast<std::uint32_t>(random.between(1, options.members - 1))] =
        options.rate / random.between(2, 4);
  }
  return options;
}

/// Options for the block model: groups of 2 to 130 members with small rings, up to four senders, racks and
/// slow links.
inline ScenarioOptions block_options_of(std::uint64_t seed) {
  Random random(seed);
  ScenarioOptions options{.model = Model::blocks, .seed = seed};
  options.members = static_cast<std::uint32_t>(random.between(2, 130));
  options.block_bytes = static_cast<std::uint32_t>(random.between(1, 1 << 20));
  options.size_bytes = random.below(60 * std::uint64_t{options.block_bytes});
  options.blocks.jitter = microseconds(static_cast<std::int64_t>(random.below(500)));
  options.blocks.relay_cost = microseconds(static_cast<std::int64_t>(random.below(100)));
  options.blocks.writes_in_flight = static_cast<std::uint32_t>(random.between(1, 16));
  options.blocks.senders =
      static_cast<std::uint32_t>(random.between(1, std::min(options.members, std::uint32_t{4})));
  if (random.below(2) == 0) options.algorithm = relay::kAlgorithms[random.below(relay::kAlgorithms.size())];
  if (options.algorithm == relay::Algorithm::hybrid || random.below(2) == 0)
    options.racks = racks_of(options.members, random);
  options.uplink_rate = options.rate * random.between(1, 20);
  options.blocks.slow_percent = static_cast<std::uint32_t>(random.below(50));
  options.blocks.slow_rate = options.rate / random.between(2, 10);
  return options;
}

/// Runs the seeds [first, first + count) with the options from `options_for`. Each seed runs `times` times,
/// once or twice.
inline SeedsOutcome run_seeds(std::uint64_t first, std::uint64_t count, int times,
                              ScenarioOptions (*options_for)(std::uint64_t) = options_of) {
  return run_each_seed(first, count, times == 1 ? 0 : 1,
                       [=](std::uint64_t seed) { return run_bcast(options_for(seed)); });
}

}  // namespace rdmc::sim_app
