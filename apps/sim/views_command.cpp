#include "apps/sim/views_command.hpp"

#include <algorithm>
#include <sstream>

namespace rdmc::sim_app {
namespace {

constexpr std::array kRates{
    std::pair("loss", &sim::FaultRates::loss), std::pair("duplicate", &sim::FaultRates::duplicate),
    std::pair("reorder", &sim::FaultRates::reorder), std::pair("delay", &sim::FaultRates::delay)};
constexpr std::uint32_t kPartsPerMillion = 30'000;

std::vector<std::string> all_faults() {
  std::vector<std::string> all(kViewsFaults.begin(), kViewsFaults.end());
  for (const auto& [name, rate] : kRates) all.emplace_back(name);
  return all;
}

std::string faults_help() {
  std::string names = "none, all, or some of ";
  for (const std::string& name : all_faults()) names += name + ',';
  names.pop_back();
  return names;
}

}  // namespace

ViewsCommand::ViewsCommand(CLI::App& app, bool& json)
    : command_(app.add_subcommand("views", "a group that keeps its view while everything goes wrong")) {
  command_->add_option("--seed", options_.seed);
  command_->add_option("--members", options_.members)->check(CLI::Range(1U, 64U));
  command_->add_option("--faults", faults_, faults_help());
  command_->add_option("--lease-ms", lease_ms_, "the term of each member's lease; 0: no leases")
      ->check(CLI::Range(std::int64_t{0}, view::kMaxLease.ns / 1'000'000));
  command_->add_flag("--no-restarts", no_restarts_, "the dead stay dead");
  command_->add_flag("--json", json, "one JSON object on stdout");
}

bool ViewsCommand::ask(const std::string& kind) {
  const auto rate = std::ranges::find(kRates, kind, &decltype(kRates)::value_type::first);
  if (rate != kRates.end()) {
    options_.rates.*rate->second = kPartsPerMillion;
    return true;
  }
  const auto known = std::ranges::find(kViewsFaults, kind);
  if (known == kViewsFaults.end()) return false;
  ++options_.strikes[static_cast<std::size_t>(known - kViewsFaults.begin())];
  return true;
}

Result<ScenarioResult> ViewsCommand::run() {
  std::istringstream kinds(faults_);
  for (std::string kind; std::getline(kinds, kind, ',');) {
    if (kind == "all")
      asked_ = all_faults();
    else if (kind != "none")
      asked_.push_back(kind);
  }
  for (const std::string& kind : asked_)
    if (!ask(kind)) return fail(Errc::invalid_argument, "unknown fault '" + kind + "'");
  options_.lease = milliseconds(lease_ms_);
  options_.restarts = !no_restarts_;
  return run_views(options_);
}

}  // namespace rdmc::sim_app
