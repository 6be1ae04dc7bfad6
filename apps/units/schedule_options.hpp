// The options --algorithm and --racks. They are the same for every program that runs a group on one machine.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/units/option_values.hpp"
#include "dataplane/relay/schedule.hpp"

namespace rdmc {

/// The values of the options, as they were given, until the number of members is known.
struct ScheduleOptions {
  /// The caller may set a default before declare(). If it is empty after parsing, the program decides what to
  /// do.
  std::string algorithm;
  std::vector<std::uint32_t> rack_sizes;

  void declare(CLI::App& app) {
    auto names = relay::algorithm_names();
    names.emplace_back("auto");
    app.add_option(
           "--algorithm", algorithm,
           "the schedule of blocks between members; auto chooses the one that a model predicts to be fastest")
        ->check(one_of(names))
        ->capture_default_str();
    app.add_option("--racks", rack_sizes,
                   "the number of members in each rack, beginning with the root's rack, for example 4,4,8")
        ->delimiter(',');
  }

  /// Returns the algorithm. Returns an empty value for auto, or if no algorithm is given.
  std::optional<relay::Algorithm> chosen() const { return relay::algorithm_of(algorithm); }
  /// Returns the racks. Errors: invalid_argument if --racks is wrong. The error's text names --racks.
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
