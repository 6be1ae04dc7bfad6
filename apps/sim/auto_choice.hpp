// Chooses the algorithm and the block size of a simulated bcast if the options do not name them. The cost
// model finds the cheapest choice. Its parameters are either the values that rdmc_bcast may know before it
// sends, or they are fitted to the measured times of a few short messages.
#pragma once

#include "apps/sim/scenario.hpp"
#include "dataplane/relay/cost_model.hpp"

namespace rdmc::sim_app {

/// Runs short messages between few members on the scenario's links, without faults and racks, and fits the
/// parameters to their times.
relay::PathParameters probe_paths(const ScenarioOptions& options);

/// Returns the parameters that rdmc_bcast may know of its paths before it sends. Each option replaces one of
/// its sources: `rate` the rate of its interface or --limit-rate, `link_delay` and `latency` half of the
/// quickest answer to a greeting, `uplink_rate` its own option, and `relay_cost` the time that its core takes
/// for a block. This function uses nothing that the simulated network draws at random.
relay::PathParameters known_paths(const ScenarioOptions& options);

/// The values that the cost model is to choose. `probes` is true if its parameters come from short messages,
/// and false if they come from known_paths(), as in rdmc_bcast.
struct Auto {
  bool algorithm = false;
  bool block_size = false;
  bool probes = true;
};
void choose(ScenarioOptions& options, Auto what);

}  // namespace rdmc::sim_app
