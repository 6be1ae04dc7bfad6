#include "apps/sim/views_command.hpp"

#include "apps/units/option_values.hpp"

namespace rdmc::sim_app {

ViewsCommand::ViewsCommand(CLI::App& app, bool& json)
    : command_(app.add_subcommand("views", "runs a group that keeps its view while faults strike")),
      faults_(*command_, kViewsFaults) {
  command_->add_option("--seed", options_.seed);
  command_->add_option("--members", options_.members)->check(number_from(1U, 64U));
  command_
      ->add_option("--lease-ms", lease_ms_,
                   "term of each member's lease in milliseconds, 20 to 1000; 0: no leases")
      ->check(number_from(view::kMinLease.ns / 1'000'000, view::kMaxLease.ns / 1'000'000, true));
  command_->add_flag("--no-restarts", no_restarts_, "dead processes are not started again");
  command_->add_flag("--json", json, "print one JSON object on stdout");
}

Result<ScenarioResult> ViewsCommand::run() {
  if (auto known = faults_.apply(options_.rates, options_.strikes, 1); !known)
    return std::unexpected(known.error());
  options_.lease = milliseconds(lease_ms_);
  options_.restarts = !no_restarts_;
  return run_views(options_);
}

}  // namespace rdmc::sim_app
