// Finds out which launcher has started this process, from the environment that the launcher has left. There
// is no I/O here. May be used from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "controlplane/launch/job.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

enum class Launcher : std::uint8_t {
  pmix,      ///< A PMIx server: mpirun, prterun, srun --mpi=pmix.
  slurm,     ///< srun, by its variables alone.
  hostlist,  ///< A person or a script, with RDMC_HOSTS.
};

struct LauncherChoice {
  Launcher launcher;
  std::string why;  ///< A text for the user, for example "slurm: SLURM_PROCID is set".
};

/// True if a PMIx server has started this process.
bool is_under_pmix(const Variables& variables);

/// Chooses the launcher. `wanted` is "pmix", "slurm", "hostlist", or "auto" for the first of these that is
/// present. PMIx is first because it knows the order of the ranks and needs no agreement about ports.
/// `pmix_usable` returns whether this process can use the PMIx server, and is called only if there is one.
/// Errors: invalid_argument if `wanted` is another word; not_found if no launcher, or not the wanted one, is
/// present (the text says how to start it); the error of `pmix_usable` if PMIx is wanted.
Result<LauncherChoice> choose_launcher(std::string_view wanted, const Variables& variables,
                                       const std::function<Result<void>()>& pmix_usable);

}  // namespace rdmc::control
