// What `auto` stands for in a simulated bcast: algorithm and block size that the cost model finds cheapest,
// its parameters fitted to what a few short messages take on such links, as the product's would be.
#pragma once

#include "apps/sim/scenario.hpp"
#include "dataplane/relay/cost_model.hpp"

namespace rdmc::sim_app {

/// Runs short messages between few members on the scenario's links, without faults or racks.
relay::PathParameters probe_paths(const ScenarioOptions& options);

/// Which of the two the model is to choose.
struct Auto {
  bool algorithm = false;
  bool block_size = false;
};
void choose(ScenarioOptions& options, Auto what);

}  // namespace rdmc::sim_app
