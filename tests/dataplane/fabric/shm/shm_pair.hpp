// Two shm fabrics in one process, with one queue pair each. The two queue pairs are connected to each other.
// They act like two processes, but one thread runs the turns of both fabrics. The class has the same
// interface as SimPair, so that the same tests can run with either class.
#pragma once

#include <boost/test/unit_test.hpp>

#include <array>
#include <memory>
#include <random>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/random.hpp"
#include "dataplane/fabric/shm/shm_fabric.hpp"

namespace rdmc::fabric::testing {

inline std::unique_ptr<ShmFabric> open_shm_fabric(bool read_processes = true) {
  auto fabric = ShmFabric::open(
      {.entropy = [] { return std::random_device()(); }, .host_id = 7, .read_processes = read_processes});
  BOOST_REQUIRE_MESSAGE(fabric, fabric.error().what);
  return std::move(*fabric);
}

class ShmPair {
 public:
  explicit ShmPair(const QueuePairOptions& options = {}, bool read_processes = true) {
    for (Member& member : members) {
      member.fabric = open_shm_fabric(read_processes);
      auto made = member.fabric->create_queue_pair(options);
      BOOST_REQUIRE(made.has_value());
      member.queue_pair = std::move(*made);
    }
    for (std::size_t i = 0; i < 2; ++i)
      BOOST_REQUIRE(members[i].queue_pair->connect(members[1 - i].queue_pair->local_blob()).has_value());
  }

  QueuePair& queue_pair(std::size_t i) { return *members[i].queue_pair; }
  ShmFabric& fabric(std::size_t i) { return *members[i].fabric; }
  std::vector<Completion>& completions(std::size_t i) { return members[i].completions; }

  void turn() {
    for (std::size_t i = 0; i < 2; ++i) turn(i);
  }
  void turn(std::size_t i) {
    Member& member = members[i];
    member.fabric->progress(monotonic_now());
    std::array<Completion, 16> some;
    while (member.queue_pair) {
      const std::size_t count = member.queue_pair->poll_completions(some);
      if (count == 0) break;
      member.completions.insert(member.completions.end(), some.begin(),
                                some.begin() + static_cast<std::ptrdiff_t>(count));
    }
  }
  template <typename Done>
  bool run_until(Done done, Duration patience = seconds(20)) {
    for (const Time end = monotonic_now() + patience; !done();) {
      if (monotonic_now() > end) return false;
      turn();
    }
    return true;
  }
  bool run_until_completed(std::size_t i, std::size_t count) {
    return run_until([&] { return completions(i).size() >= count; });
  }

  struct Member {
    std::unique_ptr<ShmFabric> fabric;
    std::unique_ptr<QueuePair> queue_pair;
    std::vector<Completion> completions;
  };
  std::array<Member, 2> members;
};

}  // namespace rdmc::fabric::testing
