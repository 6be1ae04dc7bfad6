// What the seeds of the bcast scenario look like, and running many of them on every core.
#pragma once

#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/sim/scenario.hpp"
#include "dataplane/base/random.hpp"

namespace rdmc::sim_app {

/// Groups of 2 to 16, 0 to 3 MB (small ones more often: they reach the corners), every mix of faults.
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
  return options;
}

struct SeedsOutcome {
  std::uint64_t runs = 0, differing_hashes = 0;
  std::map<std::string, std::uint64_t> faults;
  std::map<std::string, std::uint64_t> figures;
  std::vector<std::string> violations;  ///< each with its seed
};

/// Runs the seeds [first, first + count), each `times` times.
inline SeedsOutcome run_seeds(std::uint64_t first, std::uint64_t count, int times) {
  SeedsOutcome outcome;
  std::mutex mutex;
  std::atomic<std::uint64_t> next = first;
  const auto work = [&] {
    for (std::uint64_t seed = next++; seed < first + count; seed = next++) {
      const ScenarioOptions options = options_of(seed);
      const ScenarioResult result = run_bcast(options);
      bool same = true;
      for (int i = 1; i < times; ++i) same = same && run_bcast(options).trace_hash == result.trace_hash;
      const std::scoped_lock lock(mutex);
      outcome.runs += static_cast<std::uint64_t>(times);
      outcome.differing_hashes += same ? 0 : 1;
      for (const auto& [kind, struck] : result.faults) outcome.faults[kind] += struck;
      for (const auto& [name, value] : result.figures) outcome.figures[name] += value;
      for (const auto& what : result.violations) {
        outcome.violations.push_back("seed " + std::to_string(seed) + ": " + what);
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  return outcome;
}

}  // namespace rdmc::sim_app
