// A Slurm job step as srun describes it to each of its tasks: the nodes in SLURM_STEP_NODELIST, how many
// tasks each runs in SLURM_STEP_TASKS_PER_NODE ("2(x3),1"), and in which order the ranks were dealt to them
// in SLURM_DISTRIBUTION (srun(1), "--distribution" and "OUTPUT ENVIRONMENT VARIABLES"). Slurm hands out no
// ports, so they follow from the step's number. Pure; any thread.
#pragma once

#include <cstdint>

#include "controlplane/launch/job.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::control {

/// Whether srun started this process. In a batch script, and under salloc's shell, it did not.
bool is_slurm_step(const Variables& variables);

/// The tasks of the step; nodes are called by the names that Slurm has for them. The ports on a node count
/// up from `first_port`; 0: from one between 16384 and 32512 that the job's and the step's numbers give, so
/// that steps that share a node seldom collide; its name tells it from those that do. Errors: not_found and
/// invalid_argument, naming the variable; unsupported for a distribution whose order the variables do not
/// tell (arbitrary, heterogeneous steps), with the remedy.
Result<Job> slurm_job(const Variables& variables, std::uint16_t first_port);

}  // namespace rdmc::control
