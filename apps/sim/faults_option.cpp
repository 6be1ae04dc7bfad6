#include "apps/sim/faults_option.hpp"

#include <algorithm>
#include <array>
#include <sstream>

namespace rdmc::sim_app {
namespace {

constexpr std::array kRates{
    std::pair("loss", &sim::FaultRates::loss), std::pair("duplicate", &sim::FaultRates::duplicate),
    std::pair("reorder", &sim::FaultRates::reorder), std::pair("delay", &sim::FaultRates::delay)};
constexpr std::uint32_t kPartsPerMillion = 30'000;

}  // namespace

FaultsOption::FaultsOption(CLI::App& command, std::span<const std::string_view> strikes, bool has_network)
    : names_(strikes), has_network_(has_network) {
  std::string help = "none, all, or some of ";
  for (const std::string& name : all()) help += name + ',';
  help.pop_back();
  command.add_option("--faults", text_, help);
}

std::vector<std::string> FaultsOption::all() const {
  std::vector<std::string> all(names_.begin(), names_.end());
  if (!has_network_) return all;
  for (const auto& [name, rate] : kRates) all.emplace_back(name);
  return all;
}

Result<void> FaultsOption::apply(sim::FaultRates& rates, std::span<std::uint32_t> strikes,
                                 std::uint32_t times) {
  std::istringstream kinds(text_);
  for (std::string kind; std::getline(kinds, kind, ',');) {
    if (kind == "all")
      asked_ = all();
    else if (kind != "none")
      asked_.push_back(kind);
  }
  for (const std::string& kind : asked_) {
    const auto rate = std::ranges::find(kRates, kind, &decltype(kRates)::value_type::first);
    const auto named = std::ranges::find(names_, kind);
    if (has_network_ && rate != kRates.end())
      rates.*rate->second = kPartsPerMillion;
    else if (named != names_.end())
      strikes[static_cast<std::size_t>(named - names_.begin())] += times;
    else
      return fail(Errc::invalid_argument, "unknown fault '" + kind + "'");
  }
  return {};
}

}  // namespace rdmc::sim_app
