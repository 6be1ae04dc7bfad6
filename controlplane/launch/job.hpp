// A job: the processes that were started together, the rank of this process among them, and the addresses at
// which the processes listen. A cluster launcher gives this information to its tasks in environment variables
// (slurm.hpp) or on request (pmix.hpp). Without a launcher, it comes from a hostlist. This code does no I/O:
// the caller passes in the variables and all other information about this machine. Any thread may use it.
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

/// The environment variables of a process.
using Variables = std::map<std::string, std::string, std::less<>>;

struct Job {
  std::uint32_t rank = 0;     ///< The rank of this process.
  std::vector<Host> members;  ///< For each rank, the host and the port number at which its process listens.
  /// A name that distinguishes this job from other jobs, which may use the same hosts and ports. The name is
  /// the same for all ranks. It is empty if nothing is known that distinguishes the job.
  std::string name;
};

/// Returns the value of `variable`, or an empty string if it is not set.
std::string value_in(const Variables& variables, std::string_view variable);
/// Returns the number in `variable`. Errors: not_found if the variable is not set, invalid_argument if its
/// value is not a number.
Result<std::uint32_t> number_in(const Variables& variables, std::string_view variable);

/// Makes a job with one process for each host of `hosts` (hostlist.hpp), in the same order. Several processes
/// on one host have different ports. The rank of this process is `rank`. If `rank` is nullopt, exactly one
/// host must be this machine (`is_ours` returns true for it), and this process gets the rank of that host.
/// Errors: those of expand_hostlist; invalid_argument if `rank` does not exist, or if `is_ours` returns true
/// for no host or for several.
Result<Job> hostlist_job(std::string_view hosts, std::optional<std::uint32_t> rank,
                         const std::function<bool(const std::string& host)>& is_ours);

}  // namespace rdmc::control
