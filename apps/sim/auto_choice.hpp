// Chooses the algorithm and the block size of a simulated bcast if the options do not name them. The cost
// model finds the cheapest choice. The parameters of the cost model have one of two origins: they are values
// that rdmc_bcast may know before it sends, or they are fitted to the measured times of a few short messages.
#pragma once

#include "apps/sim/scenario.hpp"
#include "dataplane/relay/cost_model.hpp"

namespace rdmc::sim_app {

/// Runs short messages between few members on the scenario's links, without faults and racks, and fits the
/// parameters to their times.
relay::PathParameters probe_paths(const ScenarioOptions& options);

/// Returns the parameters that rdmc_bcast may know of its paths before it sends. Each option of the
/// simulation replaces a value that rdmc_bcast has from elsewhere:
/// - `rate` replaces the rate of its interface, or --limit-rate.
/// - `link_delay` and `latency` replace half of the shortest time in which a greeting was answered.
/// - `uplink_rate` replaces its option of this name.
/// - `relay_cost` replaces the time that its core takes for a block.
///
/// This function uses no value that the simulated network draws at random.
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
