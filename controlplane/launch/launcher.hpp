// Which launcher started this process, told by what it left in the environment. Pure; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "controlplane/launch/job.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

enum class Launcher : std::uint8_t {
  pmix,      ///< a PMIx server: mpirun, prterun, srun --mpi=pmix
  slurm,     ///< srun, by its variables alone
  hostlist,  ///< a person, or a script: RDMC_HOSTS
};

struct LauncherChoice {
  Launcher launcher;
  std::string why;  ///< for people, e.g. "slurm: SLURM_PROCID is set"
};

/// Whether a PMIx server started this process.
bool is_under_pmix(const Variables& variables);

/// `wanted`: "pmix", "slurm", "hostlist", or "auto": the first of these that is there. PMIx comes first: it
/// knows the order of ranks, and ports need no agreement. `pmix_usable` says whether we can talk to it; it is
/// called only if a server is there. Errors: invalid_argument (another word), not_found (nothing, or what is
/// wanted, is there: how to start it), and what `pmix_usable` failed with, if PMIx is wanted or all there is.
Result<LauncherChoice> choose_launcher(std::string_view wanted, const Variables& variables,
                                       const std::function<Result<void>()>& pmix_usable);

}  // namespace rdmc::control
