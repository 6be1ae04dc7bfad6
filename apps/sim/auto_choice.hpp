// Chooses the algorithm and the block size of a simulated bcast if the options do not name them. The cost
// model finds the cheapest choice. Its parameters are values that rdmc_bcast may know before it sends.
#pragma once

#include "apps/sim/scenario.hpp"
#include "dataplane/relay/cost_model.hpp"

namespace rdmc::sim_app {

/// Returns the parameters that rdmc_bcast may know of its paths before it sends. Each option of the
/// simulation replaces a value that rdmc_bcast has from elsewhere:
/// - `rate` replaces the rate of the interface of rdmc_bcast, or --limit-rate.
/// - `link_delay` and `latency` replace half of the shortest time in which a greeting was answered.
/// - `uplink_rate` replaces the option --uplink-rate of rdmc_bcast.
/// - `relay_cost` replaces the time that a core of rdmc_bcast takes for a block.
///
/// This function uses no value that the simulated network draws at random.
relay::PathParameters known_paths(const ScenarioOptions& options);

/// Chooses the values that `fixed` does not set. The values that it sets must be those of `options`.
void choose(ScenarioOptions& options, const relay::Fixed& fixed);

}  // namespace rdmc::sim_app
