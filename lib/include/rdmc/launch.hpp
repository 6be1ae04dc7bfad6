// Finds the processes that a launcher has started together, so that a program needs no list of hosts
// under mpirun, prterun or srun, and one in RDMC_HOSTS elsewhere:
//   auto job = rdmc::launched_job();
//   auto node = rdmc::Node::create({.id = job->id, .address = job->address});
//   auto connected = rdmc::connect_mesh(**node, job->members, job->mesh);
// and then groups of job->nodes().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rdmc/mesh.hpp>

namespace rdmc {

struct LaunchOptions {
  /// "pmix", "slurm", "hostlist", or "auto": the first of these that is there.
  std::string launcher = "auto";
  /// For hostlist: "n[1-4]", or with ports, "n1:[7801-7804]" (pdsh's syntax); empty: RDMC_HOSTS.
  std::string hosts;
  /// Which of `hosts` this process is, from 0; else RDMC_RANK says, or the only host that is this one.
  std::optional<std::uint32_t> rank;
  /// For slurm: the processes of a host listen here and on the ports above; 0: as the step's number gives.
  std::uint16_t first_port = 0;
  /// The cluster key; empty: RDMC_KEY_FILE, or rdmc/key under XDG_CONFIG_HOME or ~/.config.
  std::string key_file;
  Certificates certificates;       ///< in the key's place
  bool insecure = false;           ///< no key
  Duration timeout = seconds(30);  ///< for names to be resolved and all others to tell where they are
};

/// This process's part of a job.
struct LaunchedJob {
  NodeId id{};                      ///< its rank
  Address address;                  ///< by which the others meet it, port 0: for NodeOptions
  std::vector<MeshMember> members;  ///< by rank
  MeshOptions mesh;
  std::string why;  ///< the launcher, and how it was found, for people
  /// Keeps this process's port from others until the mesh is made; of no other use.
  std::shared_ptr<void> port;

  /// The ids of all, by rank.
  std::vector<NodeId> nodes() const;
};

/// Reads the environment, and under PMIx talks to its server until all have called this, at most for the
/// timeout. Errors: not_found (nothing says who belongs together, or no key: with the remedy),
/// invalid_argument (options, variables, hostlists), unsupported (a distribution of ranks that Slurm's
/// variables do not tell; no PMIx in this build), timed_out, peer_failed (PMIx's server), authentication is
/// for connect_mesh to find out.
Result<LaunchedJob> launched_job(const LaunchOptions& options = {});

}  // namespace rdmc
