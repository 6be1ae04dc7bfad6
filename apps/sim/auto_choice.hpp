// What is chosen where a simulated bcast's options do not say: algorithm and block size that the cost model
// finds cheapest, from what rdmc_bcast takes its paths for, or fitted to what a few short messages take.
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
