// A Slurm job step, as srun describes it to each of its tasks. SLURM_STEP_NODELIST contains the nodes.
// SLURM_STEP_TASKS_PER_NODE contains the number of tasks on each node ("2(x3),1"). SLURM_DISTRIBUTION
// contains the order in which the ranks were distributed to the nodes (srun(1), "--distribution" and "OUTPUT
// ENVIRONMENT VARIABLES"). Slurm assigns no ports, so the ports are computed from the numbers of the job and
// the step. This code does no I/O. Any thread may use it.
#pragma once

#include <cstdint>

#include "controlplane/launch/job.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// True if srun has started this process. The result is false in a batch script and under the shell of
/// salloc.
bool is_slurm_step(const Variables& variables);

/// Returns the tasks of the step, with Slurm's names for the nodes. On each node, the first task gets the
/// port `first_port`, and each further task gets the next port. If `first_port` is 0, the first port is
/// computed from the numbers of the job and the step. It is then between 16384 and 32512. So steps that share
/// a node seldom use the same ports. If two steps use the same ports, the names of their jobs differ.
/// Errors: not_found and invalid_argument (the text names the variable); unsupported if the variables do not
/// determine the order of the distribution (arbitrary, heterogeneous steps). In the latter case the text
/// explains a remedy.
Result<Job> slurm_job(const Variables& variables, std::uint16_t first_port);

}  // namespace rdmc::control
