#include "controlplane/store/caspaxos/node.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/controlplane/store/caspaxos/cluster.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(node_test)
namespace {

Durable knows_second(Durable kept) {
  kept.next = second_configuration();
  return kept;
}
/// The state of a node that is active in the second configuration.
Durable second_state(std::uint64_t node) {
  Durable kept = first_state(node);
  kept.active = second_configuration();
  return kept;
}
std::uint64_t epoch_of(const Cluster& cluster, std::size_t node) {
  return cluster.nodes[node]->acceptor().kept().active.epoch;
}

struct Serving : Cluster {
  Serving() {
    start_all();
    BOOST_TEST_REQUIRE(all_serve());
  }
};

// Tests of the surviving node.

BOOST_FIXTURE_TEST_CASE(a_node_refuses_to_be_the_survivor_while_a_majority_answers, Serving) {
  const std::uint64_t before = epoch_of(*this, 0);
  for (std::size_t node = 0; node < kMostNodes; ++node)
    BOOST_TEST(refusal_of(node, Survive{}).contains("needs no survivor"));
  nodes[2].reset();  // two of three nodes still answer, which is a majority
  BOOST_TEST(refusal_of(0, Survive{}).contains("needs no survivor"));
  start(2);
  BOOST_TEST(all_serve());
  BOOST_TEST(epoch_of(*this, 0) < before + Acceptor::kForcedEpochs);
}

BOOST_FIXTURE_TEST_CASE(a_node_that_is_forced_to_be_the_survivor_asks_nobody, Serving) {
  BOOST_TEST(refusal_of(1, Survive{.force = true}) == "");
  BOOST_TEST(epoch_of(*this, 1) >= Acceptor::kForcedEpochs);
}

BOOST_FIXTURE_TEST_CASE(the_survivor_of_two_losses_goes_on_and_the_others_are_let_in, Serving) {
  for (const std::size_t lost : {0u, 2u}) start(lost);
  BOOST_TEST(run_until([&] { return nodes[0]->state().text.contains("name the survivor"); }));
  BOOST_TEST(run_until([&] { return nodes[2]->state().text.contains("name the survivor"); }));
  BOOST_TEST(refusal_of(0, Survive{}).contains("no state"));
  BOOST_TEST(refusal_of(1, Survive{}) == "");
  BOOST_TEST(all_serve());
  nodes[1].reset();
  BOOST_TEST(std::holds_alternative<Accepted>(ask(0, Query{"g", nodes[0]->acceptor().newest().epoch})->body));
}

BOOST_FIXTURE_TEST_CASE(a_node_that_nobody_answers_is_the_survivor_after_a_while, Serving) {
  nodes[0].reset();
  nodes[2].reset();
  const Time named = now;
  BOOST_TEST(refusal_of(1, Survive{}) == "");
  BOOST_TEST((now >= named + Node::kHeardWithin));
}

BOOST_FIXTURE_TEST_CASE(of_two_survivors_that_were_cut_off_from_each_other_one_is_replaced_and_says_so,
                        Serving) {
  cut(0);
  cut(1);
  for (const std::size_t node : {0u, 1u}) BOOST_TEST(refusal_of(node, Survive{.force = true}) == "");
  BOOST_TEST(epoch_of(*this, 0) != epoch_of(*this, 1));
  heal();
  const std::size_t loser = epoch_of(*this, 0) < epoch_of(*this, 1) ? 0 : 1;
  BOOST_TEST(run_until([&] { return nodes[loser]->stage() == Stage::replaced; }));
  const Error* const ending = nodes[loser]->ending();
  BOOST_TEST_REQUIRE(ending != nullptr);
  BOOST_TEST((ending->code == Errc::cancelled));
  BOOST_TEST(ending->what.contains("given to another node"));
  start(loser);  // starts this node without its former state
  start(2);
  BOOST_TEST(all_serve());
}

BOOST_FIXTURE_TEST_CASE(nobody_hears_of_a_forced_configuration_that_its_node_can_still_lose, Serving) {
  const Durable before = nodes[1]->acceptor().kept();
  for (const std::size_t lost : {0u, 2u}) start(lost);
  hold_disk(1);
  BOOST_TEST(!ask(1, Survive{.force = true}, seconds(2)).has_value());
  BOOST_TEST(!ask(1, StateRequest{}, seconds(2)).has_value());
  for (const std::size_t other : {0u, 2u})
    BOOST_TEST(ask(other, StateRequest{})->known.epoch < Acceptor::kForcedEpochs);
  start(1, before);  // starts this node with a former state, as after a loss of power
  BOOST_TEST(refusal_of(1, Survive{.force = true}) == "");
  BOOST_TEST(all_serve());
}

BOOST_FIXTURE_TEST_CASE(a_node_whose_disk_fails_before_it_may_speak_says_so_and_not_what_it_could_not_keep,
                        Serving) {
  for (const std::size_t lost : {0u, 2u}) start(lost);
  hold_disk(1);
  BOOST_TEST(!ask(1, Survive{.force = true}, seconds(2)).has_value());
  nodes[1]->fail({Errc::resource_limit, "no space"});
  const auto reply = ask(1, StateRequest{});
  BOOST_TEST_REQUIRE(reply.has_value());
  BOOST_TEST((std::get<NodeState>(reply->body).stage == Stage::failed));
  BOOST_TEST(reply->known.epoch == 0U);
  BOOST_TEST(refusal_of(1, Query{"g", 1}).contains("no space"));
}

BOOST_FIXTURE_TEST_CASE(a_node_that_has_lost_its_state_is_forced_into_no_epoch_of_its_former_life, Serving) {
  cut(1);
  BOOST_TEST(refusal_of(1, Survive{.force = true}) == "");
  const Configuration former = nodes[1]->acceptor().newest();
  start(1);  // starts this node without its former state
  heal();
  BOOST_TEST_REQUIRE(all_serve());
  for (const std::size_t lost : {0u, 2u}) start(lost);
  // A message to the former life of node 2 arrives only now.
  BOOST_TEST_REQUIRE(ask(2, Adopt{former}).has_value());
  BOOST_TEST(refusal_of(1, Survive{.force = true}) == "");
  BOOST_TEST(epoch_of(*this, 1) > former.epoch);
  BOOST_TEST(all_serve());
}

// Tests in which one node has lost its state and is being let in again, and meanwhile another node loses its
// state.

struct LetIn : Cluster {
  /// The first node had agreed to let in the third node, and has lost its state since then. Only the second
  /// node still has the state of the previous configuration.
  LetIn() {
    start(0);
    start(1, knows_second(first_state(1)));
    start(2, knows_second(Durable{.id = acceptor_id(3)}));
  }
};

BOOST_FIXTURE_TEST_CASE(the_loss_of_a_majority_of_the_configuration_before_is_told_to_the_operator, LetIn) {
  for (std::size_t node = 0; node < kMostNodes; ++node)
    BOOST_TEST(run_until([&] { return nodes[node]->state().text.contains("name the survivor"); }));
  BOOST_TEST(std::ranges::none_of(nodes, is_serving));
}

BOOST_FIXTURE_TEST_CASE(a_node_that_was_being_let_in_is_let_in_by_the_survivor, LetIn) {
  BOOST_TEST(refusal_of(1, Survive{}) == "");
  BOOST_TEST(all_serve());
  nodes[1].reset();
  BOOST_TEST(std::holds_alternative<Accepted>(ask(2, Query{"g", nodes[2]->acceptor().newest().epoch})->body));
}

BOOST_AUTO_TEST_CASE(a_configuration_that_has_begun_at_one_node_needs_nobody_of_the_one_before) {
  Cluster cluster;
  cluster.start(0, second_state(0));
  cluster.start(1, knows_second(Durable{.id = acceptor_id(1)}));
  cluster.start(2, knows_second(Durable{.id = acceptor_id(3)}));
  BOOST_TEST(cluster.refusal_of(0, Survive{}).contains("needs no survivor"));
  BOOST_TEST(cluster.all_serve());
  for (const auto& node : cluster.nodes) BOOST_TEST(!node->has_lost_majority());
}

// Tests of a change of the configuration whose proposer has ended.

BOOST_AUTO_TEST_CASE(a_change_that_stalls_is_completed_by_a_node_that_has_accepted_it) {
  Cluster cluster;
  for (const std::size_t node : {0u, 1u}) cluster.start(node, first_state(node));
  const Accept change{kConfigurationRegister, {ballot(1, 1), encode(second_configuration())}};
  for (const std::size_t node : {0u, 1u})
    BOOST_TEST(std::holds_alternative<Done>(cluster.ask(node, change)->body));
  const Time sealed = cluster.now;
  BOOST_TEST(cluster.run_until([&] { return epoch_of(cluster, 0) == 2 && epoch_of(cluster, 1) == 2; }));
  BOOST_TEST((cluster.now >= sealed + Node::kStalled));
}

BOOST_AUTO_TEST_CASE(nodes_do_not_complete_a_change_at_the_same_moment) {
  for (const std::size_t node : {0u, 1u, 2u}) {
    Node alone({.self = node, .nodes = kMostNodes, .fresh = {}, .proposer = {5, 5}, .seed = 1},
               first_state(node), {});
    const auto begins = [&](Time now) {
      alone.tick(now);
      const auto requests = alone.take_requests();
      return std::ranges::any_of(
          requests, [](const Node::ToPeer& to) { return std::holds_alternative<Prepare>(to.request.body); });
    };
    alone.receive(1, {1, Accept{kConfigurationRegister, {ballot(1, 1), encode(second_configuration())}}}, {});
    const Duration after = Node::kStalled * static_cast<std::int64_t>(node + 1);
    BOOST_TEST(!begins(Time{} + after - nanoseconds(1)));
    BOOST_TEST((alone.next_deadline() <= Time{} + after));
    BOOST_TEST(begins(Time{} + after));
  }
}

// Tests of the first configuration.

struct TwoVotes {
  /// The third node has voted for the first configuration, and later for another configuration with a new
  /// first node.
  TwoVotes() {
    Durable kept{.id = acceptor_id(2), .vote = later};
    node.emplace(Node::Options{.self = 2, .nodes = kMostNodes, .fresh = {}, .proposer = {5, 5}, .seed = 1},
                 std::move(kept), Time{});
  }
  void hear(std::size_t from, Stage stage, const Configuration& vote) {
    node->hear(from,
               {.id = 0,
                .acceptor = acceptor_id(from),
                .known = first_configuration(),
                .body = NodeState{.stage = stage, .epoch = 1, .vote = vote, .text = {}}},
               Time{});
  }

  const Configuration later{
      .epoch = 2, .acceptors = {acceptor_id(7), acceptor_id(1), acceptor_id(2)}, .from_epoch = 0, .from = {}};
  std::optional<Node> node;
};

BOOST_FIXTURE_TEST_CASE(a_node_returns_to_the_configuration_that_has_begun_if_the_later_one_never_can,
                        TwoVotes) {
  hear(1, Stage::serving, first_configuration());
  BOOST_TEST((node->stage() == Stage::serving));
  BOOST_TEST((node->acceptor().kept().active == first_configuration()));
}

BOOST_FIXTURE_TEST_CASE(a_node_keeps_to_its_later_vote_while_that_configuration_may_begin, TwoVotes) {
  // The later configuration does not contain this sender.
  hear(0, Stage::serving, first_configuration());
  // This sender has also voted for the later configuration.
  hear(1, Stage::serving, later);
  // This sender may still vote for the later configuration.
  hear(1, Stage::fresh, first_configuration());
  BOOST_TEST((node->stage() == Stage::fresh));
  BOOST_TEST((node->acceptor().kept().vote == later));
}

// Tests of invalid messages from other processes.

BOOST_AUTO_TEST_CASE(a_state_that_names_the_register_of_the_configuration_is_refused) {
  const auto contents = [](const std::string& name) {
    return encode(Reply{.id = 1,
                        .acceptor = acceptor_id(1),
                        .known = {},
                        .body = Contents{1, {{name, {ballot(1, 1), Bytes(3, std::byte{0xff})}}}}});
  };
  BOOST_TEST(decode_reply(contents("g")).has_value());
  BOOST_TEST(!decode_reply(contents(kConfigurationRegister)).has_value());
}

BOOST_AUTO_TEST_CASE(nodes_of_one_id_form_no_store) {
  Node first({.self = 0, .nodes = kMostNodes, .fresh = {7, 7}, .proposer = {5, 5}, .seed = 1}, {}, Time{});
  for (const std::size_t node : {1u, 2u})
    first.hear(node, {.id = 0, .acceptor = {8, 8}, .known = {}, .body = NodeState{}}, Time{});
  const auto requests = first.take_requests();
  BOOST_TEST(std::ranges::none_of(
      requests, [](const Node::ToPeer& to) { return std::holds_alternative<Vote>(to.request.body); }));
}

BOOST_FIXTURE_TEST_CASE(a_node_that_has_failed_tells_why_and_nothing_else, Serving) {
  nodes[0]->receive(kTest, {1, Query{"g", nodes[0]->acceptor().newest().epoch}}, now);
  nodes[0]->fail({Errc::resource_limit, "no memory"});
  BOOST_TEST(nodes[0]->take_replies().empty());
  BOOST_TEST(refusal_of(0, Query{"g", 1}).contains("no memory"));
  BOOST_TEST((nodes[0]->ending()->code == Errc::resource_limit));
  BOOST_TEST((nodes[0]->next_deadline() == Time::never()));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
