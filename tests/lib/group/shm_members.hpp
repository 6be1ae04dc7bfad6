// A group whose members use shared memory on this host. Each member is a fabric in this process, in place of
// a separate process. One thread gives all members their turns. A wait ends when its condition is true. Only
// a failing test reaches the time limit.
#pragma once

#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "tests/dataplane/fabric/shm/shm_pair.hpp"
#include "tests/lib/group/group_end.hpp"

namespace rdmc::group {

/// Member 0 is the root. All members have the same `config`, except for the rank.
template <typename End>
struct ShmMembers {
  ShmMembers(std::uint32_t count, GroupConfig config) : ends(count) {
    config.name = {.number = 1};
    config.members.clear();
    for (std::uint32_t i = 0; i < count; ++i) config.members.push_back(PeerId{i});
    for (std::uint32_t i = 0; i < count; ++i) {
      fabrics.push_back(fabric::testing::open_shm_fabric());
      peers.push_back(std::make_unique<Peers>(*fabrics.back()));
      config.rank = Rank{i};
      BOOST_REQUIRE(ends[i].open(*peers.back(), config));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      for (const Rank rank : ends[i].group().neighbours())
        BOOST_REQUIRE(peers[value_of(rank)]->connect(PeerId{i}, *peers[i]->offer(PeerId{value_of(rank)})));
    }
  }
  ~ShmMembers() {
    for (auto& end : ends) end.destroy();
  }
  void turn() {
    for (std::size_t i = 0; i < fabrics.size(); ++i) {
      fabrics[i]->progress(monotonic_now());
      peers[i]->work(monotonic_now());
    }
  }
  template <typename Condition>
  bool run_until(Condition condition) {
    const Time latest = monotonic_now() + seconds(20);
    while (!condition() && monotonic_now() < latest) turn();
    return condition();
  }
  std::uint64_t bytes_copied() const {
    std::uint64_t sum = 0;
    for (const auto& fabric : fabrics) sum += fabric->bytes_copied();
    return sum;
  }

  std::vector<std::unique_ptr<fabric::ShmFabric>> fabrics;
  std::vector<std::unique_ptr<Peers>> peers;
  std::vector<End> ends;
};

}  // namespace rdmc::group
