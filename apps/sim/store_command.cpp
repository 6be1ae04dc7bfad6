#include "apps/sim/store_command.hpp"

#include "apps/units/option_values.hpp"

namespace rdmc::sim_app {

/// The number of times that each requested fault strikes.
constexpr std::uint32_t kStrikes = 3;

StoreCommand::StoreCommand(CLI::App& app, bool& json)
    : command_(
          app.add_subcommand("store", "runs the nodes of a store and their clients while faults strike")),
      faults_(*command_, kStoreFaults) {
  command_->add_option("--seed", options_.seed);
  command_->add_option("--nodes", options_.nodes)->check(one_of({1, 3}));
  command_->add_option("--clients", options_.clients)->check(number_from(1U, 64U));
  command_->add_flag("--in-memory", in_memory_, "the nodes have no disks");
  command_->add_flag("--json", json, "print one JSON object on stdout");
}

Result<ScenarioResult> StoreCommand::run() {
  if (auto known = faults_.apply(options_.rates, options_.strikes, kStrikes); !known)
    return std::unexpected(known.error());
  options_.disks = !in_memory_;
  return run_store(options_);
}

}  // namespace rdmc::sim_app
