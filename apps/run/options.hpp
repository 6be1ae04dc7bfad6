// The command line of rdmc_run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/run/failure_plan.hpp"
#include "dataplane/base/error.hpp"
#include "lib/replica/layout.hpp"

namespace rdmc::run {

struct RunOptions {
  replica::Layout layout;
  std::string protocol;
  /// The settings that the processes get (replica::Assignment::options).
  std::map<std::string, std::string, std::less<>> settings;
  bool respawns = true;                 ///< dead replicas are replaced
  bool ignores_content = false;         ///< the run goes on after a message whose content differs
  std::optional<FailureSpec> failures;  ///< replicas are killed for a test
  /// The number of runs whose sends are compared (determinism.hpp), or 0 for an ordinary run.
  int runs = 0;
  bool label = false;  ///< each line has its rank before it
  bool json = false;
  std::vector<std::string> command;
};

/// `rdmc_run ps`.
struct ListOptions {
  bool json = false;
};

/// The program must end with this exit code. Its help, or a complaint, has been printed.
struct EndNow {
  int code = 0;
};

std::variant<RunOptions, ListOptions, EndNow> parse_command_line(int argc, char** argv);

/// Returns the layout of `ranks` ranks whose degrees are those of the map. Each line of the map has a rank or
/// a range of ranks, and its degree: "0 3" or "1-7 2". A rank that is not in the map has the degree `degree`.
/// Empty lines and the rest of a line after '#' are ignored. Errors: invalid_argument, with the line's
/// number; those of Layout::of.
Result<replica::Layout> layout_of_map(std::string_view map, std::uint32_t ranks, std::uint32_t degree);

}  // namespace rdmc::run
