// Tests with real processes. Each process has a node of the embedded store.
#include "controlplane/store/embedded_store.hpp"

#include <boost/test/unit_test.hpp>

#include "controlplane/store/survivor.hpp"
#include "tests/controlplane/store/store_nodes.hpp"
#include "tests/controlplane/store/store_trials.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(embedded_store_test)
namespace {

BOOST_AUTO_TEST_CASE(one_node_keeps_one_view_of_each_epoch_and_says_what_stands) {
  StoreNodes nodes(1);
  nodes.start_all();
  keeps_one_view_of_each_epoch_and_says_what_stands(nodes, nodes.clients());
}

BOOST_AUTO_TEST_CASE(three_nodes_keep_one_view_of_each_epoch_and_say_what_stands) {
  StoreNodes nodes(3);
  nodes.start_all();
  keeps_one_view_of_each_epoch_and_says_what_stands(nodes, nodes.clients());
}

BOOST_AUTO_TEST_CASE(a_node_that_dies_and_comes_back_is_found_again_by_requests_and_watches) {
  StoreNodes nodes(1);
  nodes.start_all();
  is_found_again_after_its_death_by_requests_and_watches(nodes, nodes.clients());
}

BOOST_AUTO_TEST_CASE(three_nodes_killed_one_after_the_other_under_load_lose_and_split_nothing) {
  StoreNodes nodes(3);
  nodes.start_all();
  three_killed_one_after_the_other_under_load_lose_and_split_nothing(nodes, nodes.clients());
}

BOOST_AUTO_TEST_CASE(a_store_without_disks_begins_only_when_all_its_nodes_are_there) {
  StoreNodes nodes(3, StoreNodes::Keeps::in_memory);
  nodes.start(0);
  nodes.start(1);
  StoreClient client = nodes.client();
  BOOST_TEST_REQUIRE(wait_for_stage(nodes, 0, Stage::fresh));
  BOOST_TEST_REQUIRE(wait_for_stage(nodes, 1, Stage::fresh));
  BOOST_TEST(!client.swap("g", view_of(1, 1)).has_value());
  nodes.start(2);
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST(client.advance("g", 1, [](const view::View&) {}).has_value());
}

/// Kills and starts the nodes one after the other. A killed process loses its state, and is a new acceptor
/// after it is started again.
void come_back_without_their_state_one_after_the_other(StoreNodes& nodes) {
  nodes.start_all();
  StoreClient client = nodes.client();
  BOOST_TEST_REQUIRE(client.wait_until_up());
  view::View last;
  for (int round = 0; round < 2; ++round)
    for (std::size_t node = 0; node < 3; ++node) {
      for (std::size_t other = 0; other < 3; ++other)
        BOOST_TEST_REQUIRE(wait_for_stage(nodes, other, Stage::serving));
      nodes.kill(node);
      nodes.wipe(node);
      const auto next = client.advance("g", node, [](const view::View&) {});
      BOOST_TEST_REQUIRE(next.has_value());
      last = *next;
      nodes.start(node);
    }
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST((client.read("g").value() == last));
}

BOOST_AUTO_TEST_CASE(nodes_that_lost_their_disks_one_after_the_other_are_let_in_again_as_new_ones) {
  StoreNodes nodes(3);
  come_back_without_their_state_one_after_the_other(nodes);
}

BOOST_AUTO_TEST_CASE(nodes_that_never_had_a_disk_are_let_in_again_as_new_ones) {
  StoreNodes nodes(3, StoreNodes::Keeps::in_memory);
  come_back_without_their_state_one_after_the_other(nodes);
}

BOOST_AUTO_TEST_CASE(a_store_that_lost_the_state_of_two_nodes_serves_nobody_until_a_survivor_is_named) {
  StoreNodes nodes(3);
  nodes.start_all();
  StoreClient client = nodes.client();
  BOOST_TEST_REQUIRE(client.wait_until_up());
  // While node 0 is dead, nodes 1 and 2 are the majority. So node 1, which becomes the surviving node, has
  // the last view.
  BOOST_TEST_REQUIRE(wait_for_stage(nodes, 1, Stage::serving));
  nodes.kill(0);
  BOOST_TEST_REQUIRE(client.advance("g", 1, [](const view::View&) {}).has_value());
  const view::View stood = client.read("g").value();
  nodes.kill(2);
  for (const std::size_t lost : {0u, 2u}) nodes.wipe(lost);
  for (const std::size_t lost : {0u, 2u}) nodes.start(lost);
  for (const std::size_t lost : {0u, 2u}) BOOST_TEST_REQUIRE(wait_for_stage(nodes, lost, Stage::fresh));
  // The nodes without state request an operator as soon as they know each other.
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  for (bool told = false; !told && std::chrono::steady_clock::now() < limit;) {
    const auto answer = client.read("g");
    BOOST_TEST_REQUIRE(!answer.has_value());
    told = answer.error().what.contains("name the survivor");
  }
  BOOST_TEST((std::chrono::steady_clock::now() < limit));
  const auto loop = control::ControlLoop::create().value();
  // A node that has lost its state cannot be the surviving node.
  BOOST_TEST(!name_survivor(*loop, nodes.endpoints()[0], nodes.channel()).has_value());
  BOOST_TEST(!client.read("g").has_value());
  BOOST_TEST(name_survivor(*loop, nodes.endpoints()[1], nodes.channel()).has_value());
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST((client.read("g").value() == stood));
  for (std::size_t node = 0; node < 3; ++node)
    BOOST_TEST_REQUIRE(wait_for_stage(nodes, node, Stage::serving));
  // All three nodes have the state again. So the store also survives the death of node 1.
  nodes.kill(1);
  BOOST_TEST(client.advance("g", 1, [](const view::View&) {}).has_value());
}

BOOST_AUTO_TEST_CASE(a_node_with_a_damaged_journal_does_not_start_and_comes_back_without_it) {
  StoreNodes nodes(3);
  nodes.start_all();
  StoreClient client = nodes.client();
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST_REQUIRE(client.advance("g", 1, [](const view::View&) {}).has_value());
  BOOST_TEST_REQUIRE(wait_for_stage(nodes, 2, Stage::serving));
  nodes.kill(2);
  {
    std::fstream journal(nodes.journal(2), std::ios::in | std::ios::out | std::ios::binary);
    journal.seekg(40);
    // The new byte differs from the byte in the file, whatever that is.
    const char damaged = static_cast<char>(~journal.get());
    journal.seekp(40);
    journal.put(damaged);
  }
  nodes.start(2);
  BOOST_TEST(nodes.wait(2) == 1);
  BOOST_TEST(nodes.said(2).contains("the journal has lost"));
  nodes.wipe(2);
  nodes.start(2);
  BOOST_TEST(wait_for_stage(nodes, 2, Stage::serving));
}

BOOST_AUTO_TEST_CASE(who_has_another_key_is_told_nothing) {
  StoreNodes nodes(1);
  nodes.start_all();
  BOOST_TEST_REQUIRE(nodes.client().wait_until_up());
  const auto other = control::ClusterKey::generate().value();
  const auto answer = StoreNodes::client_with(other)(nodes.endpoints()).read("g");
  BOOST_TEST((answer.error().code == Errc::authentication));
}

BOOST_AUTO_TEST_CASE(one_client_too_many_takes_the_place_of_who_has_been_silent_longest) {
  StoreNodes nodes(1);
  nodes.start_all();
  BOOST_TEST_REQUIRE(nodes.client().wait_until_up());
  control::testing::Harness silent;
  const auto channel = nodes.channel();
  const auto come = [&]() -> control::testing::End& {
    auto& end = silent.connect_to(nodes.endpoints().front(), channel);
    BOOST_TEST_REQUIRE(silent.events.wait([&] { return end.established; }));
    return end;
  };
  auto& first = come();
  for (std::size_t i = 1; i < StoreNode::kMostClients; ++i) come();
  silent.events.change([&] { BOOST_TEST(first.closings.empty()); });
  BOOST_TEST(nodes.client().read("g").has_value());
  BOOST_TEST(silent.events.wait([&] { return !first.closings.empty(); }));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
