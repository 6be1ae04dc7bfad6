// The command line of rdmc_sim views.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/sim/faults_option.hpp"
#include "apps/sim/views_scenario.hpp"

namespace rdmc::sim_app {

class ViewsCommand {
 public:
  /// Adds the subcommand to `app`. Its option --json sets `json`.
  ViewsCommand(CLI::App& app, bool& json);
  ViewsCommand(const ViewsCommand&) = delete;
  ViewsCommand& operator=(const ViewsCommand&) = delete;

  bool is_asked() const { return command_->parsed(); }
  /// Runs the scenario. Errors: invalid_argument if a fault is not known.
  Result<ScenarioResult> run();
  std::uint64_t seed() const { return options_.seed; }
  /// Returns the faults that must have struck.
  const std::vector<std::string>& faults_asked() const { return faults_.asked(); }

 private:
  CLI::App* command_;
  ViewsOptions options_;
  FaultsOption faults_;
  std::int64_t lease_ms_ = 0;
  bool no_restarts_ = false;
};

}  // namespace rdmc::sim_app
