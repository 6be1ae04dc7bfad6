// Example of a rank program: a farm. Rank 0 gives tasks to the other ranks, which are its workers, and adds
// their results. A worker gets its next task when its result has arrived, so a fast worker does more tasks.
//
//     rdmc_run -n 4 -r 1 rdmc_example_farm --tasks 10000
//
// This program is not send-deterministic. The order in which results arrive decides which worker gets which
// task, so the messages differ between two runs. Only the sum of the results is the same in each run. Without
// workers, rank 0 does all tasks itself.
#include <algorithm>
#include <vector>

#include "apps/run/examples/example.hpp"

namespace {

using namespace rdmc::replica;
using namespace rdmc::example;

constexpr int kTask = 1, kResult = 2, kEnd = 3;
constexpr std::uint64_t kMostTasks = std::uint64_t{1} << 30;
/// Each task is to add the cubes of this many numbers.
constexpr std::uint64_t kNumbersOfTask = 2000;

/// Returns the result of a task. All sums are modulo 2^64.
std::uint64_t do_task(std::uint64_t task) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = task * kNumbersOfTask; i < (task + 1) * kNumbersOfTask; ++i) sum += i * i * i;
  return sum;
}

/// Returns the sum of all results: the sum of the first cubes is the square of the sum of the first numbers.
std::uint64_t right_sum(std::uint64_t tasks) {
  const std::uint64_t half = tasks * (kNumbersOfTask / 2), sum = half * (2 * half - 1);
  return sum * sum;
}

void work(Communicator& world) {
  for (;;) {
    std::uint64_t task = 0;
    const MessageInfo info = need(world.recv(std::as_writable_bytes(std::span(&task, 1)), 0, kAnyTag));
    if (info.tag == kEnd) return;
    const std::uint64_t result = do_task(task);
    need(world.send(std::as_bytes(std::span(&result, 1)), 0, kResult));
  }
}

/// Gives all tasks to the workers, and returns the sum of the results.
std::uint64_t give_tasks(Job& job, std::uint64_t tasks) {
  Communicator& world = job.world();
  const auto workers = static_cast<std::size_t>(world.size() - 1);
  std::uint64_t next = 0, sum = 0;
  // There are as many receives as tasks that a worker has and that have no result yet. A receive can get the
  // result of any worker.
  std::vector<std::uint64_t> results(std::min<std::uint64_t>(workers, tasks));
  std::vector<Request> receives(results.size());
  const auto give = [&](int worker, std::size_t receive) {
    const std::uint64_t task = next++;
    receives[receive] =
        need(world.irecv(std::as_writable_bytes(std::span(&results[receive], 1)), kAnySource, kResult));
    need(world.send(std::as_bytes(std::span(&task, 1)), worker, kTask));
  };
  for (std::size_t i = 0; i < receives.size(); ++i) give(static_cast<int>(i + 1), i);
  while (const auto completed = need(job.wait_any(receives))) {
    sum += results[completed->index];
    if (next < tasks) give(completed->info.source, completed->index);
  }
  for (int worker = 1; worker < world.size(); ++worker) need(world.send({}, worker, kEnd));
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t tasks = 1000;
  Options options(
      "rdmc_example_farm",
      "An example of a rank program: rank 0 gives tasks to the other ranks, and adds their results.");
  options.add("--tasks", tasks, kMostTasks, "number of tasks");
  if (const auto code = options.read(argc, argv)) return *code;

  const auto job = need(Job::start());
  Communicator& world = job->world();
  std::uint64_t sum = 0;
  if (world.rank() > 0) {
    work(world);
  } else if (world.size() > 1) {
    sum = give_tasks(*job, tasks);
  } else {
    for (std::uint64_t task = 0; task < tasks; ++task) sum += do_task(task);
  }
  // Only rank 0 has a result.
  const bool is_rank_0 = world.rank() == 0;
  return conclude(*job, is_rank_0 ? checksum(0, std::span<const std::uint64_t>(&sum, 1)) : 0,
                  !is_rank_0 || sum == right_sum(tasks));
}
