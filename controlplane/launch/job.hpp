// The processes that belong together: how many, which of them we are, and where each is met. A cluster
// launcher tells its tasks in environment variables (slurm.hpp) or when asked (pmix.hpp); without one a
// hostlist does. Pure: variables and everything else about this machine are handed in. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/launch/hostlist.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// A process's environment.
using Variables = std::map<std::string, std::string, std::less<>>;

struct Job {
  std::uint32_t rank = 0;     ///< ours
  std::vector<Host> members;  ///< by rank: the host, and the port that the process listens on
  /// Tells it from every other one that may have the same places, if anything is known that does; the same
  /// for all ranks.
  std::string name;
};

/// What `variable` says; empty: nothing, or it is not set.
std::string value_in(const Variables& variables, std::string_view variable);
/// The number in `variable`. Errors: not_found (it is not set), invalid_argument (it is no number).
Result<std::uint32_t> number_in(const Variables& variables, std::string_view variable);

/// A process for each item of `hosts` (hostlist.hpp), in their order; several on one host by their ports.
/// Which is ours `rank` says, or the only item that `is_ours` holds for. Errors: those of expand_hostlist;
/// invalid_argument (no such rank; none or several are ours).
Result<Job> hostlist_job(std::string_view hosts, std::optional<std::uint32_t> rank,
                         const std::function<bool(const std::string& host)>& is_ours);

}  // namespace rdmc::control
