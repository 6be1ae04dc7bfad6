// --algorithm and --racks, the same for every program that runs a group on one machine.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/relay/schedule.hpp"

namespace rdmc {

/// Texts of the options, until all are known.
struct ScheduleOptions {
  std::string algorithm;  ///< what it is without the option; empty: the program says what happens then
  std::vector<std::uint32_t> rack_sizes;

  void declare(CLI::App& app) {
    auto names = relay::algorithm_names();
    names.emplace_back("auto");
    app.add_option("--algorithm", algorithm, "who passes blocks on to whom; auto: the cheapest by a model")
        ->check(CLI::IsMember(names))
        ->capture_default_str();
    app.add_option("--racks", rack_sizes, "the members of each rack, the root's first: 4,4,8")
        ->delimiter(',');
  }

  bool is_given() const { return !algorithm.empty(); }
  /// Nothing for auto, or if it is not given.
  std::optional<relay::Algorithm> chosen() const { return relay::algorithm_of(algorithm); }
  /// Errors: invalid_argument, naming --racks.
  Result<relay::Racks> racks(std::uint32_t members) const {
    if (rack_sizes.empty()) return relay::Racks{};
    auto known = relay::Racks::of(rack_sizes);
    if (!known) return fail(known.error().code, "--racks: " + known.error().what);
    if (known->members() != members)
      return fail(Errc::invalid_argument, "--racks: they have " + std::to_string(known->members()) +
                                              " members, and there are " + std::to_string(members));
    return known;
  }
};

}  // namespace rdmc
