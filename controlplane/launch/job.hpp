// A job: the processes that were started together, the rank of this process among them, and where each one
// listens. A cluster launcher gives this to its tasks in environment variables (slurm.hpp) or on request
// (pmix.hpp). Without a launcher, a hostlist gives it. There is no I/O here: the caller passes in the
// variables and everything else about this machine. May be used from any thread.
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
  std::uint32_t rank = 0;     ///< The rank of this process.
  std::vector<Host> members;  ///< By rank: the host and the port on which the process listens.
  /// Distinguishes this job from other jobs that may use the same hosts and ports. The name is the same for
  /// all ranks. It is empty if nothing is known that distinguishes the job.
  std::string name;
};

/// Returns the value of `variable`, or an empty string if it is not set.
std::string value_in(const Variables& variables, std::string_view variable);
/// Returns the number in `variable`. Errors: not_found if it is not set, invalid_argument if it is not a
/// number.
Result<std::uint32_t> number_in(const Variables& variables, std::string_view variable);

/// Makes a job with one process for each host of `hosts` (hostlist.hpp), in their order. Several processes on
/// one host have different ports. The rank of this process is `rank`. If `rank` is nullopt, it is that of the
/// only host for which `is_ours` returns true. Errors: those of expand_hostlist; invalid_argument if there is
/// no such rank, or if `is_ours` returns true for no host or for several.
Result<Job> hostlist_job(std::string_view hosts, std::optional<std::uint32_t> rank,
                         const std::function<bool(const std::string& host)>& is_ours);

}  // namespace rdmc::control
