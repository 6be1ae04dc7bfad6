#include "bench/perf/run.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "bench/perf/connections.hpp"
#include "bench/perf/member.hpp"
#include "bench/perf/sockets.hpp"

namespace rdmc::perf {
namespace {

Result<void> run_test(const Options& options, Rendezvous& meet, std::uint32_t rank) {
  if (is_of_sockets(options)) return run_sockets(options, meet, rank);
  if (is_of_connections(options)) return run_connections(options, meet, rank);
  const auto member = Member::open(options, meet, rank);
  if (!member) return std::unexpected(member.error());
  switch (options.test) {
    case Test::unicast: return run_unicast(**member);
    case Test::latency: return run_latency(**member);
    case Test::rate: return options.api == "group" ? run_group_rate(**member) : run_rate(**member);
    default: return run_bcast(**member);
  }
}

int run_member(const Options& options, Rendezvous& meet, std::uint32_t rank) {
  const auto result = run_test(options, meet, rank);
  if (!result) meet.fail(rank, result.error().what);
  // A member ends only after all members have finished. When the first member ends, DPDK removes the memory
  // of a memif from the other member.
  meet.barrier([] { usleep(100); });
  return result ? 0 : 2;
}

}  // namespace

Result<void> run_members(const Options& options, Rendezvous& meet) {
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < options.members; ++rank) {
    const pid_t child = fork();
    if (child == 0) _exit(run_member(options, meet, rank));
    if (child < 0) {
      meet.fail(rank, "cannot fork");
      break;
    }
    children.push_back(child);
  }
  int status = 0;
  for (std::size_t left = children.size(); left > 0; --left) {
    int how = 0;
    wait(&how);
    if (!WIFEXITED(how)) meet.fail(0, fmt::format("a member was killed by signal {}", WTERMSIG(how)));
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) status = 2;
  }
  if (status != 0 || meet.failed()) return fail(Errc::peer_failed, meet.failure());
  return {};
}

std::vector<double> seconds_taken(const Options& options, const Rendezvous& meet) {
  std::vector<double> seconds;
  for (std::uint32_t i = kWarmUpIterations; i < kWarmUpIterations + options.iterations; ++i)
    seconds.push_back(static_cast<double>(meet.finished_ns[i] - meet.started_ns[i]) * 1e-9);
  std::ranges::sort(seconds);
  return seconds;
}

double percentile(const std::vector<double>& sorted, double p) {
  const auto index = static_cast<std::size_t>(std::ceil(p * static_cast<double>(sorted.size()))) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

}  // namespace rdmc::perf
