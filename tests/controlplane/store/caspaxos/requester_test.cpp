#include "controlplane/store/caspaxos/requester.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/controlplane/store/caspaxos/values.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(requester_test)
namespace {

struct Asking {
  /// Answers what each node was asked for its state with that text, and returns how many nodes were asked.
  std::size_t nodes_say(const std::string& text) {
    std::size_t asked = 0;
    for (const Requester::ToNode& to : requester.take_requests()) {
      if (!std::holds_alternative<StateRequest>(to.request.body)) continue;
      ++asked;
      hear(to.node, text);
    }
    return asked;
  }
  void hear(std::size_t node, const std::string& text) {
    requester.hear(node,
                   {.id = 0,
                    .acceptor = acceptor_id(node),
                    .known = first_configuration(),
                    .body = NodeState{.stage = text.empty() ? Stage::serving : Stage::fresh,
                                      .epoch = 1,
                                      .vote = {},
                                      .text = text}},
                   now);
  }
  void go_to_next_deadline() {
    BOOST_TEST_REQUIRE((requester.next_deadline() != Time::never()));
    now = requester.next_deadline();
    requester.tick(now);
  }
  void bring_up_all() {
    for (std::size_t node = 0; node < kMostNodes; ++node) requester.link_up(node, now);
  }
  /// Lets the time of the only request pass, while the nodes say that text whenever they are asked.
  Error time_passes_while_nodes_say(const std::string& text) {
    for (;;) {
      go_to_next_deadline();
      auto finished = requester.take_finished();
      if (!finished.empty()) {
        BOOST_TEST_REQUIRE(!finished.front().outcome.has_value());
        return finished.front().outcome.error();
      }
      nodes_say(text);
    }
  }

  Time now;
  Requester requester{{.nodes = kMostNodes, .self = {5, 5}, .seed = 1}};
};

BOOST_AUTO_TEST_CASE(a_late_request_says_what_the_nodes_say_last) {
  Asking asking;
  asking.bring_up_all();
  BOOST_TEST(asking.nodes_say("it has no state") == kMostNodes);
  asking.requester.read("g", asking.now);
  const Error late = asking.time_passes_while_nodes_say("a majority has lost its state");
  BOOST_TEST((late.code == Errc::peer_failed));
  BOOST_TEST(late.what.contains("a majority has lost its state"));
}

BOOST_AUTO_TEST_CASE(a_node_that_begins_to_complain_during_a_request_is_asked_again) {
  Asking asking;
  asking.bring_up_all();
  asking.nodes_say("");
  asking.requester.read("g", asking.now);
  asking.requester.take_requests();
  asking.hear(2, "it has no state");
  const Error late = asking.time_passes_while_nodes_say("a majority has lost its state");
  BOOST_TEST(late.what.contains("a majority has lost its state"));
}

BOOST_AUTO_TEST_CASE(nodes_that_serve_are_asked_for_their_state_once) {
  Asking asking;
  asking.bring_up_all();
  BOOST_TEST(asking.nodes_say("") == kMostNodes);
  asking.requester.read("g", asking.now);
  std::size_t asked = 0;
  while (!asking.requester.is_idle()) {
    asking.go_to_next_deadline();
    asked += asking.nodes_say("");
  }
  BOOST_TEST(asked == 0);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
