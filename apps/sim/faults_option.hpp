// The option --faults of a scenario.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/sim/network.hpp"

namespace rdmc::sim_app {

class FaultsOption {
 public:
  /// Adds the option to `command`. `strikes` has the names of the faults that happen a given number of times.
  /// If `has_network`, the option also accepts the faults of the network, which have rates.
  FaultsOption(CLI::App& command, std::span<const std::string_view> strikes, bool has_network = true);
  FaultsOption(const FaultsOption&) = delete;
  FaultsOption& operator=(const FaultsOption&) = delete;

  /// Sets the rate of each requested network fault. Adds `times` to the number of strikes of each other
  /// requested fault. `strikes` has these numbers in the order of the names. Errors: invalid_argument if a
  /// fault is not known.
  Result<void> apply(sim::FaultRates& rates, std::span<std::uint32_t> strikes, std::uint32_t times);
  /// Returns the requested faults. Valid after apply().
  const std::vector<std::string>& asked() const { return asked_; }

 private:
  std::vector<std::string> all() const;

  std::span<const std::string_view> names_;
  const bool has_network_;
  std::string text_ = "none";
  std::vector<std::string> asked_;
};

}  // namespace rdmc::sim_app
