// Tests epochs that begin without a failure. While messages are in progress, another member becomes the root,
// or members join. In some tests a member is killed meanwhile. All members of the group must have the same
// messages in the same order. If no member dies, no sent message may be lost.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/lib/group/survivors.hpp"

BOOST_AUTO_TEST_SUITE(planned_epochs_test)

using namespace rdmc;
using namespace rdmc::group;
namespace bdata = boost::unit_test::data;

namespace {

void send_some(Survivors& group, Random& random) {
  for (int i = 0; i < 6; ++i) group.send(random.below(3) == 0 ? 200 : random.between(1, 4) * kBlock - 3);
}

void run_a_while(Survivors& group, Random& random) {
  group.world.run_for(microseconds(static_cast<std::int64_t>(random.below(4000))));
}

/// Checks that every live member of the group has the messages that were sent while it was a member, in order
/// and without duplicates.
void check(const Survivors& group, const std::string& what) {
  for (const Member& member : group.members) {
    if (!member.is_alive || !member.is_in) continue;
    BOOST_TEST((member.in_order && member.intact), what);
    BOOST_TEST(member.stable == group.sent.size(), what);
    BOOST_TEST(member.reusable == group.sent.size(), what);
    for (std::size_t m = 0; m < std::min(member.copies.size(), group.sent.size()); ++m)
      BOOST_TEST((member.copies[m] == group.sent[m]), what << ", message " << m);
  }
  BOOST_TEST(!group.wrongly_blamed, what);
}

bool settles(Survivors& group) {
  return group.world.simulation.run_until([&] { return group.is_settled(); },
                                          group.world.simulation.now() + seconds(10));
}

}  // namespace

BOOST_DATA_TEST_CASE(the_root_changes_and_what_the_former_root_had_to_send_arrives, bdata::xrange(0, 30),
                     seed) {
  Random random(static_cast<std::uint64_t>(seed));
  Survivors group(static_cast<std::uint64_t>(seed), 2 + random.below(6), true);
  const std::string what = "seed " + std::to_string(seed);
  std::size_t sent = 0;
  for (int change = 0; change < 4; ++change) {
    send_some(group, random);
    sent += 6;
    run_a_while(group, random);
    group.lead_by((group.root() + 1 + random.below(group.view.size() - 1)) % group.view.size());
    BOOST_TEST_REQUIRE(settles(group), what << ": not settled");
    ++sent;  // The new root sends one message when it learns of its new role.
    BOOST_TEST(group.sent.size() == sent, what);
  }
  check(group, what);
  for (const Member& member : group.members) BOOST_TEST(member.continued == 4, what);
}

BOOST_DATA_TEST_CASE(whoever_joins_gets_all_messages_from_then_on, bdata::xrange(0, 30), seed) {
  Random random(static_cast<std::uint64_t>(seed));
  Survivors group(static_cast<std::uint64_t>(seed), 1 + random.below(5), seed % 2 == 0,
                  seed % 3 == 0 ? std::nullopt : std::optional(relay::Algorithm::binomial_pipeline), alone,
                  2);
  const std::string what = "seed " + std::to_string(seed);
  const std::size_t first = group.view.size();
  for (const std::size_t joiner : {first, first + 1}) {
    send_some(group, random);
    run_a_while(group, random);
    group.let_in(joiner);
    BOOST_TEST_REQUIRE(settles(group), what << ": not settled");
    send_some(group, random);
    BOOST_TEST_REQUIRE(settles(group), what << ": does not go on");
  }
  BOOST_TEST(group.sent.size() == 26, what);
  check(group, what);
  for (const std::size_t joiner : {first, first + 1})
    BOOST_TEST(group.members[joiner].copies.size() == group.sent.size(), what);
}

BOOST_DATA_TEST_CASE(a_group_may_begin_with_all_joining_while_one_of_them_dies, bdata::xrange(0, 30), seed) {
  Random random(static_cast<std::uint64_t>(seed));
  Survivors group(static_cast<std::uint64_t>(seed), 0, true, relay::Algorithm::binomial_pipeline, alone,
                  2 + random.below(5));
  const std::string what = "seed " + std::to_string(seed);
  group.let_all_in();
  if (seed % 2 == 0) {
    run_a_while(group, random);
    group.kill(static_cast<std::size_t>(random.below(group.view.size())));
    group.world.run_for(milliseconds(1500));  // By then, all members know of the death.
  }
  BOOST_TEST_REQUIRE(settles(group), what << ": not settled");
  // In this case, no member has noticed that the root died.
  if (!group.members[group.root()].is_alive) return;
  send_some(group, random);
  BOOST_TEST_REQUIRE(settles(group), what << ": does not go on");
  check(group, what);
}

BOOST_DATA_TEST_CASE(members_may_die_while_others_join_and_the_root_changes, bdata::xrange(0, 120), seed) {
  Random random(static_cast<std::uint64_t>(seed));
  Survivors group(static_cast<std::uint64_t>(seed), 3 + random.below(3), true,
                  relay::Algorithm::binomial_pipeline, alone, 1);
  const std::string what = "seed " + std::to_string(seed);
  const std::size_t joiner = group.view.size();
  send_some(group, random);
  run_a_while(group, random);
  if (seed % 3 != 0) group.let_in(joiner);
  if (seed % 3 != 1) group.lead_by(1);
  const auto victim = static_cast<std::size_t>(random.below(group.view.size()));
  run_a_while(group, random);
  group.kill(victim);
  group.world.run_for(milliseconds(1500));  // By then, all members know of the death.
  BOOST_TEST_REQUIRE(settles(group), what << ": not settled, " << victim << " was killed");
  // In this case, no member has noticed that the root died.
  if (!group.members[group.root()].is_alive) return;
  send_some(group, random);
  BOOST_TEST_REQUIRE(settles(group), what << ": does not go on");
  check(group, what);
}

BOOST_AUTO_TEST_SUITE_END()
