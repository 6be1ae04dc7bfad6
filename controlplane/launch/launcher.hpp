// Finds out which launcher has started this process, from the environment variables that the launcher has
// set. This code does no I/O. Any thread may use it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "controlplane/launch/job.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

enum class Launcher : std::uint8_t {
  pmix,      ///< A launcher with a PMIx server: mpirun, prterun, srun --mpi=pmix.
  slurm,     ///< srun without a PMIx server.
  hostlist,  ///< A person or a script that has set RDMC_HOSTS.
};

struct LauncherChoice {
  Launcher launcher;
  std::string why;  ///< A text for the user, for example "slurm: SLURM_PROCID is set".
};

/// True if a PMIx server has started this process.
bool is_under_pmix(const Variables& variables);

/// Chooses the launcher. `wanted` is "pmix", "slurm", "hostlist" or "auto". "auto" means the first launcher
/// in this order that is present. PMIx is first because it knows the order of the ranks, and the processes do
/// not need to agree on ports. `pmix_usable` returns whether this process can use the PMIx server, and is
/// called only if there is a PMIx server.
/// Errors:
/// - invalid_argument: `wanted` is another word.
/// - not_found: the wanted launcher is not present, or no launcher is present. The text explains how to start
///   the process.
/// - The error of `pmix_usable`, if `wanted` is "pmix".
Result<LauncherChoice> choose_launcher(std::string_view wanted, const Variables& variables,
                                       const std::function<Result<void>()>& pmix_usable);

}  // namespace rdmc::control
