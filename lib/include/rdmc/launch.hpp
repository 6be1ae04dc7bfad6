// Finds the processes that a launcher has started together. Under mpirun, prterun or srun, a program then
// needs no list of hosts. Elsewhere, the variable RDMC_HOSTS must have the list. Example:
//   auto job = rdmc::launched_job();
//   auto node = rdmc::Node::create({.id = job->id, .address = job->address});
//   auto connected = rdmc::connect_mesh(**node, job->members, job->mesh);
// After that, the program makes groups of job->nodes().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rdmc/mesh.hpp>

namespace rdmc {

struct LaunchOptions {
  /// "pmix", "slurm" or "hostlist". "auto" takes the first of these that is present.
  std::string launcher = "auto";
  /// For hostlist: the hosts in pdsh's syntax, "n[1-4]", or with port numbers, "n1:[7801-7804]". If empty,
  /// the variable RDMC_HOSTS gives the hosts.
  std::string hosts;
  /// For hostlist: the index of this process in the list, from 0. Without a value, the variable RDMC_RANK
  /// gives the index. Without RDMC_RANK, the list must name this host exactly once.
  std::optional<std::uint32_t> rank;
  /// For slurm: the first port number. The processes of a host listen there and at the following port
  /// numbers. 0 means that the first port number is derived from the number of the job step.
  std::uint16_t first_port = 0;
  /// The file of the cluster key. If empty, the variable RDMC_KEY_FILE names the file. Without that variable,
  /// the file is rdmc/key under XDG_CONFIG_HOME or ~/.config.
  std::string key_file;
  Certificates certificates;       ///< used in place of the cluster key
  bool insecure = false;           ///< if true, no key is used
  Duration timeout = seconds(30);  ///< the limit for resolving names and for the exchange of addresses
};

/// This process's part of a job. Use `members` and `mesh` for connect_mesh().
struct LaunchedJob {
  NodeId id{};                      ///< the rank of this process
  Address address;                  ///< the value for NodeOptions::address: other processes can reach this
                                    ///< address; its port number is 0
  std::vector<MeshMember> members;  ///< in the order of their ranks
  MeshOptions mesh;
  std::string why;  ///< the launcher and how it was found, for people
  /// Reserves this process's port until the mesh is made. Until then the application must keep this pointer.
  /// It need not do anything else with it.
  std::shared_ptr<void> port;

  /// Returns the ids of all members, in the order of their ranks.
  std::vector<NodeId> nodes() const;
};

/// Finds the job of this process from its environment. Under PMIx, this also exchanges addresses through the
/// PMIx server. It then waits until all processes of the job have called it, for at most the timeout. Errors:
/// not_found if nothing names the processes or there is no key (the text gives the remedy), invalid_argument
/// if the options, the environment variables or a host list are not valid, unsupported if Slurm's variables
/// do not describe the distribution of the ranks or this build has no PMIx, timed_out, peer_failed if the
/// PMIx server fails. The key is not checked here; connect_mesh() does that.
Result<LaunchedJob> launched_job(const LaunchOptions& options = {});

}  // namespace rdmc
