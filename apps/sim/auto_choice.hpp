// Chooses the algorithm and the block size of a simulated bcast whose options do not say them. The cost model
// finds the cheapest. Its parameters are what rdmc_bcast may know before it sends, or they are fitted to the
// times of a few short messages.
#pragma once

#include "apps/sim/scenario.hpp"
#include "dataplane/relay/cost_model.hpp"

namespace rdmc::sim_app {

/// Runs short messages between few members on the scenario's links, without faults or racks.
relay::PathParameters probe_paths(const ScenarioOptions& options);

/// The options stand for what rdmc_bcast may know of its paths before it sends. `rate` stands for the rate of
/// its interface or --limit-rate, `link_delay` and `latency` for half of the quickest answer to a greeting,
/// `uplink_rate` for its own option, and `relay_cost` for the time that its core takes for a block. Nothing
/// is used that the simulated network draws at random.
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
