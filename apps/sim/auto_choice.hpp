// Chooses the algorithm and the block size of a simulated bcast whose options do not say them. The cost model
// finds the cheapest. Its parameters are what rdmc_bcast may know before it sends, or they are fitted to the
// times of a few short messages.
#pragma once

#include "apps/sim/scenario.hpp"
#include "dataplane/relay/cost_model.hpp"

namespace rdmc::sim_app {

/// Runs short messages between few members on the scenario's links, without faults or racks.
relay::PathParameters probe_paths(const ScenarioOptions& options);

/// What rdmc_bcast may know of its paths, and what stands for it here. `rate`: its interface's rate, or
/// --limit-rate. `link_delay` and `latency`: half of the quickest answer to a greeting. `uplink_rate`: its
/// own option. `relay_cost`: how long its core takes for a block. Nothing that the simulated network draws is
/// looked at.
relay::PathParameters known_paths(const ScenarioOptions& options);

/// Which of the two the model is to choose, and whether from probes or, as rdmc_bcast does, from what is
/// known beforehand.
struct Auto {
  bool algorithm = false;
  bool block_size = false;
  bool probes = true;
};
void choose(ScenarioOptions& options, Auto what);

}  // namespace rdmc::sim_app
