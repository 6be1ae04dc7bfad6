// Tests which member is named when a group makes no progress. Of the waits of all members, the one with the
// lowest step must name the idle member as its peer.
#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <tuple>

#include "tests/dataplane/relay/mesh.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(wait_test)
namespace {

/// Returns the earliest wait of all members except the idle one. If two waits have the same step, a wait for
/// memory counts as earlier than a wait for a block.
std::optional<Wait> earliest_wait(const Mesh& mesh, const MeshOptions& options) {
  std::optional<Wait> earliest;
  const auto key = [](const Wait& wait) { return std::tuple(wait.step, wait.what); };
  for (std::uint32_t rank = 0; rank < options.members; ++rank) {
    if (rank == options.idle_rank) continue;
    const auto wait = mesh.wait_of(rank);
    if (wait && (!earliest || key(*wait) < key(*earliest))) earliest = wait;
  }
  return earliest;
}

BOOST_AUTO_TEST_CASE(the_earliest_wait_of_all_names_the_member_that_does_nothing) {
  std::uint64_t stalls = 0;
  const bool held = rc::check("the idle member is named", [&] {
    MeshOptions options;
    options.algorithm = *rc::gen::elementOf(kAlgorithms);
    options.members = *rc::gen::inRange<std::uint32_t>(2, 40);
    if (options.algorithm == Algorithm::hybrid && options.members > 3)
      options.racks =
          *Racks::of(std::vector{options.members / 2, 1U, options.members - options.members / 2 - 1});
    options.block_bytes = *rc::gen::inRange<std::uint32_t>(1, 4);
    options.length = *rc::gen::inRange<std::uint64_t>(1, 60 * options.block_bytes);
    options.max_writes_in_flight = *rc::gen::element<std::uint32_t>(1, 2, 16);
    options.spare_slots = *rc::gen::element<std::uint64_t>(0, 1, 8, 1000);
    options.slow_per_million = *rc::gen::element<std::uint32_t>(0, 500'000);
    options.seed = *rc::gen::arbitrary<std::uint64_t>();
    options.idle_rank = *rc::gen::inRange<std::uint32_t>(1, options.members);
    options.idle_after = *rc::gen::inRange<std::uint64_t>(0, options.length / options.block_bytes + 2);
    Mesh mesh(options);
    RC_ASSERT(mesh.run_until_quiet() == "");
    bool others_done = true;
    for (std::uint32_t rank = 0; rank < options.members; ++rank)
      others_done = others_done && (rank == options.idle_rank || mesh.is_complete(rank));
    const auto wait = earliest_wait(mesh, options);
    RC_ASSERT(others_done != wait.has_value());
    if (!wait) return;
    ++stalls;
    RC_ASSERT(wait->peer == Rank{options.idle_rank});
    RC_ASSERT(wait->what == Wait::For::room || wait->what == Wait::For::block);
  });
  BOOST_TEST(held);
  BOOST_TEST(stalls > 0u);
}

BOOST_AUTO_TEST_CASE(a_root_with_nothing_to_give_waits_for_its_own_store_and_the_others_for_it) {
  auto root = Relay::create({.members = 2, .block_bytes = 4});
  auto other = Relay::create({.rank = Rank{1}, .members = 2, .block_bytes = 4});
  for (Relay* relay : {&*root, &*other}) {
    BOOST_TEST(!relay->wait());
    BOOST_REQUIRE(relay->set_length(8).has_value());
    BOOST_REQUIRE(relay->set_memory({.slots = 2}).has_value());
  }
  BOOST_TEST((root->wait() == Wait{0, Rank{0}, Wait::For::store}));
  Rank to{};
  BlockGrant grant;
  BOOST_REQUIRE(other->poll_grant(to, grant));
  BOOST_TEST((other->wait() == Wait{0, Rank{0}, Wait::For::block}));
  root->on_available(1);
  BOOST_TEST((root->wait() == Wait{0, Rank{1}, Wait::For::room}));
  BOOST_REQUIRE(root->on_grant(Rank{1}, grant).has_value());
  BlockWrite write;
  BOOST_REQUIRE(root->poll_write(write));
  BOOST_TEST((root->wait() == Wait{0, Rank{1}, Wait::For::link}));
  BOOST_REQUIRE(other->on_block(Rank{0}, write.immediate, write.bytes).has_value());
  BOOST_TEST((other->wait() == Wait{0, Rank{1}, Wait::For::store}));
  root->on_write_complete(Rank{1}, 0);
  other->on_consumed(0);
  BOOST_TEST((root->wait() == Wait{1, Rank{0}, Wait::For::store}));
  BOOST_TEST((other->wait() == Wait{1, Rank{0}, Wait::For::block}));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
