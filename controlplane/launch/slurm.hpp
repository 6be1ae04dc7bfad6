// A Slurm job step, as srun describes it to each of its tasks. SLURM_STEP_NODELIST has the nodes.
// SLURM_STEP_TASKS_PER_NODE has the number of tasks on each node ("2(x3),1"). SLURM_DISTRIBUTION has the
// order in which the ranks were distributed to the nodes (srun(1), "--distribution" and "OUTPUT ENVIRONMENT
// VARIABLES"). Slurm assigns no ports, so they are computed from the numbers of the job and the step. There
// is no I/O here. May be used from any thread.
#pragma once

#include <cstdint>

#include "controlplane/launch/job.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// True if srun has started this process. False in a batch script and under the shell of salloc.
bool is_slurm_step(const Variables& variables);

/// Returns the tasks of the step, with Slurm's names for the nodes. The ports on a node count up from
/// `first_port`. If `first_port` is 0, they count up from a port between 16384 and 32512 that follows from
/// the numbers of the job and the step. Steps that share a node then seldom use the same ports, and if they
/// do, the names of their jobs differ. Errors: not_found and invalid_argument (the text names the variable);
/// unsupported for a distribution whose order does not follow from the variables (arbitrary, heterogeneous
/// steps); the text says what to do.
Result<Job> slurm_job(const Variables& variables, std::uint16_t first_port);

}  // namespace rdmc::control
