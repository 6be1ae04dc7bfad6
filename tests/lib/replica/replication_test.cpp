#include "lib/replica/replication.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "tests/lib/replica/generators.hpp"

BOOST_AUTO_TEST_SUITE(replication_test)

using namespace rdmc;
using namespace rdmc::replica;
using namespace rdmc::testing;

namespace {

/// The protocols of all processes of a run, after the same deaths.
std::vector<std::unique_ptr<ReplicationProtocol>> protocols(const char* name, const Layout& layout,
                                                            const std::vector<ReplicaId>& dead) {
  std::vector<std::unique_ptr<ReplicationProtocol>> all;
  for (std::uint32_t i = 0; i < layout.processes(); ++i) {
    all.push_back(*make_protocol(name, layout, layout.replica(ProcessId{i})));
    for (const ReplicaId& one : dead) all.back()->on_died(one);
  }
  return all;
}

/// Some processes, but never all of one rank.
std::vector<ReplicaId> any_deaths(const Layout& layout) {
  std::vector<ReplicaId> dead;
  std::vector<std::uint32_t> left;
  for (std::uint32_t rank = 0; rank < layout.ranks(); ++rank) left.push_back(layout.degree(Rank{rank}));
  for (std::uint32_t i = 0; i < layout.processes(); ++i) {
    const ReplicaId id = layout.replica(ProcessId{i});
    if (left[value_of(id.rank)] == 1 || !*rc::gen::arbitrary<bool>()) continue;
    --left[value_of(id.rank)];
    dead.push_back(id);
  }
  return dead;
}

}  // namespace

BOOST_AUTO_TEST_CASE(with_sdr_each_living_replica_gets_each_message_from_one_replica) {
  BOOST_TEST(rc::check([] {
    const Layout layout = *any_layout();
    const auto dead = any_deaths(layout);
    const auto all = protocols("sdr", layout, dead);
    for (std::uint32_t from = 0; from < layout.ranks(); ++from) {
      for (std::uint32_t to = 0; to < layout.ranks(); ++to) {
        ReplicaSet reached = 0;
        for (const auto& one : all) {
          if (one->self().rank != Rank{from} || (one->living(Rank{from}) & set_of(one->self().replica)) == 0)
            continue;
          const Roles roles = one->toward(Rank{to});
          RC_ASSERT((roles.receivers & reached) == 0U);
          reached |= roles.receivers;
          // The others get the message from another replica, and acknowledge it to this one.
          RC_ASSERT((roles.receivers & roles.acknowledging) == 0U);
          RC_ASSERT((roles.receivers | roles.acknowledging) == one->living(Rank{to}));
          for_each_replica(roles.receivers, [&](std::uint32_t receiver) {
            const auto& there = *all[value_of(layout.process({Rank{to}, receiver}))];
            RC_ASSERT(there.acknowledged(Rank{from}, one->self().replica) ==
                      (one->living(Rank{from}) & ~set_of(one->self().replica)));
          });
        }
        RC_ASSERT(reached == all[0]->living(Rank{to}));
      }
    }
  }));
}

BOOST_AUTO_TEST_CASE(with_sdr_and_no_deaths_replica_k_sends_to_replica_k_alone) {
  const Layout layout = *Layout::uniform(4, 3);
  for (const auto& one : protocols("sdr", layout, {}))
    for (std::uint32_t to = 0; to < 4; ++to)
      BOOST_TEST(one->toward(Rank{to}).receivers == set_of(one->self().replica));
}

BOOST_AUTO_TEST_CASE(with_mirror_each_replica_sends_to_all_that_live) {
  const Layout layout = *Layout::parse("3,2,1");
  const auto all = protocols("mirror", layout, {{Rank{0}, 1}});
  for (const auto& one : all) {
    BOOST_TEST(one->toward(Rank{0}).receivers == 0b101U);
    BOOST_TEST(one->toward(Rank{1}).receivers == 0b11U);
    BOOST_TEST(one->toward(Rank{2}).acknowledging == 0U);
    BOOST_TEST(one->acknowledged(Rank{0}, 0) == 0U);
  }
}

BOOST_AUTO_TEST_CASE(unknown_protocols_and_degrees_that_are_too_large_are_refused) {
  const auto code = [](const auto& made) { return made ? Errc{} : made.error().code; };
  BOOST_TEST((code(make_protocol("paxos", *Layout::uniform(2, 2), {})) == Errc::unsupported));
  BOOST_TEST((code(make_protocol("sdr", *Layout::uniform(2, kMostDegree + 1), {})) == Errc::unsupported));
  BOOST_TEST(make_protocol("sdr", *Layout::uniform(2, kMostDegree), {}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
