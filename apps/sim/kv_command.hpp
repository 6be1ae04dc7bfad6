// The command line of rdmc_sim kv.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "apps/sim/faults_option.hpp"
#include "apps/sim/kv_scenario.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::sim_app {

class KvCommand {
 public:
  /// Adds the subcommand to `app`. Its option --json sets `json`.
  KvCommand(CLI::App& app, bool& json);
  KvCommand(const KvCommand&) = delete;
  KvCommand& operator=(const KvCommand&) = delete;

  bool is_asked() const { return command_->parsed(); }
  /// Runs the scenario. Errors: invalid_argument if a fault is not known.
  Result<ScenarioResult> run();
  std::uint64_t seed() const { return options_.seed; }
  /// Returns the faults that must have struck.
  const std::vector<std::string>& faults_asked() const { return faults_.asked(); }

 private:
  CLI::App* command_;
  KvOptions options_;
  FaultsOption faults_;
};

}  // namespace rdmc::sim_app
