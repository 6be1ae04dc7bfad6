#include "lib/include/rdmc/launch.hpp"

#include <algorithm>

#include "controlplane/connect/socket.hpp"
#include "controlplane/launch/key_file.hpp"
#include "controlplane/launch/launcher.hpp"
#include "controlplane/launch/own_address.hpp"
#include "controlplane/launch/pmix.hpp"
#include "controlplane/launch/slurm.hpp"

namespace rdmc {
namespace {

using control::Job;
using control::Launcher;
using control::Variables;

/// A job in which the host of this process is a numeric address. `port` holds the port number of that address
/// if it is reserved.
struct Located {
  Job job;
  Address address;
  std::shared_ptr<void> port;
};

Result<std::string> key_file_of(const LaunchOptions& options, const Variables& variables) {
  if (options.insecure || !options.key_file.empty() || !options.certificates.certificate.empty())
    return options.key_file;
  return control::key_file(variables);
}

/// Replaces the name of this host by its address, for all members on this host.
Result<Located> locate(Job job, Duration patience) {
  std::vector<std::string> hosts;
  for (const auto& member : job.members) hosts.push_back(member.name);
  const std::string own = hosts[job.rank];
  const auto address = control::own_address(own, hosts, patience);
  if (!address) return std::unexpected(address.error());
  for (auto& member : job.members)
    if (member.name == own) member.name = host_string(*address);
  return Located{.job = std::move(job), .address = *address, .port = {}};
}

Result<Located> by_slurm(const Variables& variables, const LaunchOptions& options) {
  auto job = control::slurm_job(variables, options.first_port);
  if (!job) return std::unexpected(job.error());
  return locate(std::move(*job), options.timeout);
}

Result<Located> by_hostlist(const Variables& variables, const LaunchOptions& options) {
  auto rank = options.rank;
  if (!rank && variables.contains("RDMC_RANK")) {
    const auto said = control::number_in(variables, "RDMC_RANK");
    if (!said) return std::unexpected(said.error());
    rank = *said;
  }
  auto job = control::hostlist_job(control::value_in(variables, "RDMC_HOSTS"), rank, control::is_this_host);
  if (!job) return std::unexpected(job.error());
  return locate(std::move(*job), options.timeout);
}

/// Reserves any free port number, and tells it to the other members through the PMIx server.
Result<Located> by_pmix(const LaunchOptions& options) {
  const auto open = control::load_pmix();
  if (!open) return std::unexpected(open.error());
  const auto client = (*open)();
  if (!client) return std::unexpected(client.error());
  const auto hosts = (*client)->hosts();
  auto address = control::own_address((*client)->host(), hosts, options.timeout);
  if (!address) return std::unexpected(address.error());
  auto port = control::reserve(*address);
  if (!port) return std::unexpected(port.error());
  const auto told = (*client)->exchange(to_string(control::local_address(port->get())), options.timeout);
  if (!told) return std::unexpected(told.error());
  Located located{
      .job = {.rank = (*client)->rank(), .members = {}, .name = "pmix " + told->front().substr(0, 80)},
      .address = *address,
      .port = std::make_shared<Descriptor>(std::move(*port))};
  for (const std::string& text : *told) {
    const auto theirs = parse_address(text, 0);
    if (!theirs || theirs->port == 0)
      return fail(Errc::protocol_error, "rank " + std::to_string(located.job.members.size()) + " has told '" +
                                            text.substr(0, 80) + "' for its address");
    located.job.members.push_back({host_string(*theirs), theirs->port});
  }
  return located;
}

}  // namespace

std::vector<NodeId> LaunchedJob::nodes() const {
  std::vector<NodeId> ids;
  for (const MeshMember& member : members) ids.push_back(member.node);
  return ids;
}

Result<LaunchedJob> launched_job(const LaunchOptions& options) {
  auto variables = control::environment();
  if (!options.hosts.empty()) variables["RDMC_HOSTS"] = options.hosts;
  const auto key = key_file_of(options, variables);
  if (!key) return std::unexpected(key.error());
  auto choice = control::choose_launcher(options.launcher, variables, []() -> Result<void> {
    const auto loaded = control::load_pmix();
    if (!loaded) return std::unexpected(loaded.error());
    return {};
  });
  if (!choice) return std::unexpected(choice.error());
  auto located = choice->launcher == Launcher::pmix    ? by_pmix(options)
                 : choice->launcher == Launcher::slurm ? by_slurm(variables, options)
                                                       : by_hostlist(variables, options);
  if (!located) return fail(located.error().code, choice->why + "; " + located.error().what);

  LaunchedJob job{.id = NodeId{located->job.rank},
                  .address = located->address,
                  .members = {},
                  .mesh = {.key_file = *key,
                           .certificates = options.certificates,
                           .insecure = options.insecure,
                           .timeout = options.timeout,
                           .job = located->job.name},
                  .why = std::move(choice->why),
                  .port = std::move(located->port)};
  job.address.port = 0;
  for (std::uint32_t rank = 0; rank < located->job.members.size(); ++rank)
    job.members.push_back({NodeId{rank}, located->job.members[rank].name, located->job.members[rank].port});
  return job;
}

}  // namespace rdmc
