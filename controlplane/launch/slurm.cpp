#include "controlplane/launch/slurm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

namespace rdmc::control {
namespace {

constexpr std::string_view kRemedy = "; srun --mpi=pmix tells us";
constexpr std::uint32_t kFirstPort = 16384;
// The number of ports of one step. The ports of the next step begin after them. If a node has more tasks than
// this number, the tasks also use ports of the next step.
constexpr std::uint32_t kPortsOfAStep = 256;
// The number of port ranges. The last range ends at 32768, where Linux's ephemeral port numbers begin.
constexpr std::uint32_t kPortRanges = 64;

/// The node that a rank was assigned to.
struct Task {
  std::uint32_t node;
  std::uint32_t on_node;  ///< The index of the task on its node, from 0.
};

Result<std::string_view> text_in(const Variables& variables, std::string_view variable) {
  const auto found = variables.find(variable);
  if (found == variables.end())
    return fail(Errc::not_found, fmt::format("{} is not set: start it with srun", variable));
  return found->second;
}

/// Parses the numbers of tasks on the nodes. For example, "2(x3),1" gives 2, 2, 2, 1.
Result<std::vector<std::uint32_t>> tasks_per_node(std::string_view text, std::size_t nodes) {
  std::vector<std::uint32_t> counts;
  const auto wrong = [&](std::string_view why) {
    return fail(Errc::invalid_argument,
                fmt::format("SLURM_STEP_TASKS_PER_NODE is '{}': {}", text.substr(0, 80), why));
  };
  const char* at = text.data();
  const char* const end = at + text.size();
  for (bool more = true; more;) {
    std::uint32_t tasks = 0, repeated = 1;
    auto read = std::from_chars(at, end, tasks);
    if (read.ec != std::errc{}) return wrong("a number of tasks is missing");
    at = read.ptr;
    if (std::string_view(at, end).starts_with("(x")) {
      read = std::from_chars(at + 2, end, repeated);
      if (read.ec != std::errc{} || read.ptr == end || *read.ptr != ')') return wrong("a '(xN)' is broken");
      at = read.ptr + 1;
    }
    if (tasks == 0 || tasks > kMaxHosts || repeated > nodes - counts.size())
      return wrong(fmt::format("that is not for {} nodes", nodes));
    counts.insert(counts.end(), repeated, tasks);
    more = at != end;
    if (more && *at++ != ',') return wrong("between two nodes comes a comma");
  }
  if (counts.size() != nodes) return wrong(fmt::format("that is not for {} nodes", nodes));
  return counts;
}

/// Returns the number of consecutive ranks that a node gets at a time. In a block distribution this is the
/// number of its tasks, in a cyclic distribution one, and in a plane distribution the size of a plane.
Result<std::uint32_t> ranks_in_a_row(const Variables& variables) {
  const auto set = variables.find("SLURM_DISTRIBUTION");
  const std::string_view text = set == variables.end() ? std::string_view() : set->second;
  // The part after ':' or ',' is about sockets and cores.
  const auto nodes = text.substr(0, text.find_first_of(":,"));
  // If the variable is not set, srun distributes in blocks, with one exception: if each node has one task,
  // srun distributes cyclically. In that case both distributions give the same order.
  if (nodes.empty() || nodes == "*" || nodes == "block") return kMaxHosts;
  if (nodes == "cyclic") return 1;
  if (nodes != "plane")
    return fail(Errc::unsupported,
                fmt::format("SLURM_DISTRIBUTION is '{}': the order of ranks is not known{}", text, kRemedy));
  const auto size = number_in(variables, "SLURM_DIST_PLANESIZE");
  if (size && *size == 0) return fail(Errc::invalid_argument, "SLURM_DIST_PLANESIZE is 0");
  return size;
}

std::vector<Task> deal(const std::vector<std::uint32_t>& counts, std::size_t total, std::uint32_t in_a_row) {
  std::vector<Task> tasks;
  std::vector<std::uint32_t> dealt(counts.size());
  while (tasks.size() < total) {
    for (std::uint32_t node = 0; node < counts.size(); ++node) {
      for (std::uint32_t i = 0; i < in_a_row && dealt[node] < counts[node]; ++i)
        tasks.push_back({node, dealt[node]++});
    }
  }
  return tasks;
}

/// Checks that Slurm gives the same node and index for this task. This detects a wrong assumption about the
/// order.
Result<void> check_own(const Variables& variables, const Task& task) {
  for (const auto& [variable, believed] :
       {std::pair("SLURM_NODEID", task.node), std::pair("SLURM_LOCALID", task.on_node)}) {
    const auto said = number_in(variables, variable);
    if (!said && said.error().code != Errc::not_found) return std::unexpected(said.error());
    if (said && *said != believed)
      return fail(Errc::unsupported, fmt::format("{} is {} and not {}: the order of ranks is not known{}",
                                                 variable, *said, believed, kRemedy));
  }
  return {};
}

/// Returns the name of the job. Returns an empty string if Slurm does not give the numbers of the job and the
/// step.
std::string name_of(const Variables& variables) {
  const auto job = value_in(variables, "SLURM_JOB_ID"), step = value_in(variables, "SLURM_STEP_ID");
  return job.empty() || step.empty() ? std::string() : fmt::format("slurm {:.64}.{:.64}", job, step);
}

Result<std::uint32_t> first_port_of(const Variables& variables) {
  const auto job = number_in(variables, "SLURM_JOB_ID"), step = number_in(variables, "SLURM_STEP_ID");
  if (!job || !step) return std::unexpected(job ? step.error() : job.error());
  return kFirstPort + kPortsOfAStep * ((*job * 37 + *step) % kPortRanges);
}

}  // namespace

bool is_slurm_step(const Variables& variables) {
  return variables.contains("SLURM_PROCID") && variables.contains("SLURM_STEP_NODELIST");
}

Result<Job> slurm_job(const Variables& variables, std::uint16_t first_port) {
  const auto list = text_in(variables, "SLURM_STEP_NODELIST");
  const auto per_node = text_in(variables, "SLURM_STEP_TASKS_PER_NODE");
  const auto rank = number_in(variables, "SLURM_PROCID");
  const auto in_a_row = ranks_in_a_row(variables);
  if (!list || !per_node) return std::unexpected(list ? per_node.error() : list.error());
  if (!rank || !in_a_row) return std::unexpected(rank ? in_a_row.error() : rank.error());
  const auto nodes = expand_hostlist(*list, {}, [](const std::string&) -> Result<std::string> {
    return fail(Errc::invalid_argument, "a node's name does not begin so");
  });
  if (!nodes) return fail(nodes.error().code, fmt::format("SLURM_STEP_NODELIST: {}", nodes.error().what));
  const auto counts = tasks_per_node(*per_node, nodes->size());
  if (!counts) return std::unexpected(counts.error());

  const auto total = std::accumulate(counts->begin(), counts->end(), std::size_t{0});
  if (*rank >= total || total > kMaxHosts)
    return fail(Errc::unsupported,
                fmt::format("SLURM_PROCID is {}, but the step has {} tasks{}", *rank, total, kRemedy));
  const auto tasks = deal(*counts, total, *in_a_row);
  if (auto right = check_own(variables, tasks[*rank]); !right) return std::unexpected(right.error());

  std::uint32_t port = first_port;
  if (port == 0) {
    const auto given = first_port_of(variables);
    if (!given) return std::unexpected(given.error());
    port = *given;
  }
  if (port + *std::ranges::max_element(*counts) > 65536)
    return fail(Errc::invalid_argument,
                fmt::format("from port {} up there are not enough for the tasks of a node", port));
  Job job{.rank = *rank, .members = {}, .name = name_of(variables)};
  for (const Task& task : tasks)
    job.members.push_back({(*nodes)[task.node].name, static_cast<std::uint16_t>(port + task.on_node)});
  return job;
}

}  // namespace rdmc::control
