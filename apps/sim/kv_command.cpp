#include "apps/sim/kv_command.hpp"

#include "apps/units/option_values.hpp"

namespace rdmc::sim_app {

/// The number of times that each requested fault strikes.
constexpr std::uint32_t kTimes = 2;

KvCommand::KvCommand(CLI::App& app, bool& json)
    : command_(app.add_subcommand(
          "kv", "runs the servers of a key-value service and their clients while faults strike")),
      faults_(*command_, kKvFaults, false) {
  command_->add_option("--seed", options_.seed);
  command_->add_option("--members", options_.members, "number of servers")->check(number_from(1U, 9U));
  command_->add_option("--clients", options_.clients, "number of clients")->check(number_from(1U, 64U));
  command_->add_option("--steps", options_.steps, "number of steps of processes and clients")
      ->check(number_from<std::uint64_t>(100, 1'000'000));
  command_->add_flag("--json", json, "print one JSON object on stdout");
}

Result<ScenarioResult> KvCommand::run() {
  sim::FaultRates none;
  if (auto known = faults_.apply(none, options_.strikes, kTimes); !known)
    return std::unexpected(known.error());
  return run_kv(options_);
}

}  // namespace rdmc::sim_app
