// Runs many seeds of a scenario on all cores and adds up the results.
#pragma once

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/sim/scenario.hpp"
#include "tests/sampled.hpp"

namespace rdmc::sim_app {

struct SeedsOutcome {
  std::uint64_t runs = 0, differing_hashes = 0;
  std::map<std::string, std::uint64_t> faults;
  std::map<std::string, std::uint64_t> figures;
  std::vector<std::string> violations;  ///< Each text names its seed.
};

/// Runs the seeds [first, first + count). `run` returns the ScenarioResult of a seed. Every seed whose index
/// is a multiple of `again` runs twice, to compare the trace hashes. If `again` is 0, no seed runs twice.
template <typename Run>
SeedsOutcome run_each_seed(std::uint64_t first, std::uint64_t count, std::uint64_t again, Run run) {
  SeedsOutcome outcome;
  std::mutex mutex;
  std::atomic<std::uint64_t> next = first;
  const auto work = [&] {
    for (std::uint64_t seed = next++; seed < first + count; seed = next++) {
      const ScenarioResult result = run(seed);
      const bool twice = again != 0 && (seed - first) % again == 0;
      const bool same = !twice || run(seed).trace_hash == result.trace_hash;
      const std::scoped_lock lock(mutex);
      outcome.runs += twice ? 2 : 1;
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
