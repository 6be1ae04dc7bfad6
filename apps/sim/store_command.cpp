#include "apps/sim/store_command.hpp"

#include <algorithm>
#include <sstream>

namespace rdmc::sim_app {
namespace {

constexpr std::array kRates{
    std::pair("loss", &sim::FaultRates::loss), std::pair("duplicate", &sim::FaultRates::duplicate),
    std::pair("reorder", &sim::FaultRates::reorder), std::pair("delay", &sim::FaultRates::delay)};
constexpr std::uint32_t kPartsPerMillion = 30'000, kStrikes = 3;

std::vector<std::string> all_faults() {
  std::vector<std::string> all(kStoreFaults.begin(), kStoreFaults.end());
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

StoreCommand::StoreCommand(CLI::App& app, bool& json)
    : command_(
          app.add_subcommand("store", "nodes of a store and their clients while everything goes wrong")) {
  command_->add_option("--seed", options_.seed);
  command_->add_option("--nodes", options_.nodes)->check(CLI::IsMember({1, 3}));
  command_->add_option("--clients", options_.clients)->check(CLI::Range(1U, 64U));
  command_->add_option("--faults", faults_, faults_help());
  command_->add_flag("--in-memory", in_memory_, "nodes have no disks");
  command_->add_flag("--json", json, "one JSON object on stdout");
}

bool StoreCommand::ask(const std::string& kind) {
  const auto rate = std::ranges::find(kRates, kind, &decltype(kRates)::value_type::first);
  if (rate != kRates.end()) {
    options_.rates.*rate->second = kPartsPerMillion;
    return true;
  }
  const auto known = std::ranges::find(kStoreFaults, kind);
  if (known == kStoreFaults.end()) return false;
  options_.strikes[static_cast<std::size_t>(known - kStoreFaults.begin())] += kStrikes;
  return true;
}

Result<ScenarioResult> StoreCommand::run() {
  std::istringstream kinds(faults_);
  for (std::string kind; std::getline(kinds, kind, ',');) {
    if (kind == "all")
      asked_ = all_faults();
    else if (kind != "none")
      asked_.push_back(kind);
  }
  for (const std::string& kind : asked_)
    if (!ask(kind)) return fail(Errc::invalid_argument, "unknown fault '" + kind + "'");
  options_.disks = !in_memory_;
  return run_store(options_);
}

}  // namespace rdmc::sim_app
