// Chooses the algorithm and the block size of a simulated bcast whose options do not say them. The cost model
// finds the cheapest. Its parameters are those that rdmc_bcast begins with, or they are fitted to the times
// of a few short messages.
#pragma once

#include "apps/sim/scenario.hpp"
#include "dataplane/relay/cost_model.hpp"

namespace rdmc::sim_app {

/// Runs short messages between few members on the scenario's links, without faults or racks.
relay::PathParameters probe_paths(const ScenarioOptions& options);

/// Which of the two the model is to choose, and whether from probes or, as rdmc_bcast does, from nothing.
struct Auto {
  bool algorithm = false;
  bool block_size = false;
  bool probes = true;
};
void choose(ScenarioOptions& options, Auto what);

}  // namespace rdmc::sim_app
