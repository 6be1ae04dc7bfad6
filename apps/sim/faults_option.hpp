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
  /// Adds the option to `command`. `strikes`: the names of the faults that happen a number of times. The
  /// faults of the network, which have rates, are known besides.
  FaultsOption(CLI::App& command, std::span<const std::string_view> strikes);
  FaultsOption(const FaultsOption&) = delete;
  FaultsOption& operator=(const FaultsOption&) = delete;

  /// Gives each fault that was asked for its rate, or `times` more strikes: `strikes` goes by the index of
  /// the name. Errors: invalid_argument (a fault that is not known).
  Result<void> apply(sim::FaultRates& rates, std::span<std::uint32_t> strikes, std::uint32_t times);
  /// After apply().
  const std::vector<std::string>& asked() const { return asked_; }

 private:
  std::vector<std::string> all() const;

  std::span<const std::string_view> names_;
  std::string text_ = "none";
  std::vector<std::string> asked_;
};

}  // namespace rdmc::sim_app
