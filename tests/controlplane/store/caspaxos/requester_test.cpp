#include "controlplane/store/caspaxos/requester.hpp"

#include <array>
#include <boost/test/unit_test.hpp>

#include "tests/controlplane/store/caspaxos/values.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(requester_test)
namespace {

struct Asking {
  /// Answers all waiting state requests with `text`. Returns the number of these requests.
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
  /// Lets time pass until the only request reaches its time limit. Meanwhile answers all state requests with
  /// `text`. Returns the error of the request.
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

/// Three nodes that answer clients. Each of the first two has accepted other proposals.
struct Listing : Asking {
  static constexpr std::size_t kRegisters = 1000;
  static constexpr Duration kRoundTrip = milliseconds(10);

  Listing() {
    for (const std::size_t node : {0u, 1u})
      for (std::size_t i = 0; i < kRegisters; ++i)
        accepted[node][std::to_string(i)] = {ballot(1, node + 1), value(1)};
    bring_up_all();
    nodes_say("");
  }
  decltype(Reply::body) answer(const Requester::ToNode& to) {
    if (std::holds_alternative<ListQuery>(to.request.body)) return Contents{1, accepted[to.node]};
    if (std::holds_alternative<Accept>(to.request.body)) return Done{};
    const auto* const query = std::get_if<Query>(&to.request.body);
    const std::string& name = query != nullptr ? query->name : std::get<Prepare>(to.request.body).name;
    const auto found = accepted[to.node].find(name);
    return found == accepted[to.node].end() ? Accepted{} : found->second;
  }

  std::array<Registers, kMostNodes> accepted;
};

BOOST_FIXTURE_TEST_CASE(a_list_of_many_changes_reads_a_bounded_number_at_a_time_for_as_long_as_it_gets_on,
                        Listing) {
  requester.list(now);
  const Time begun = now;
  std::size_t most = 0;
  std::vector<Requester::Finished> finished;
  while (finished.empty()) {
    const auto requests = requester.take_requests();
    most = std::max(most, requests.size());
    now = requests.empty() ? requester.next_deadline() : now + kRoundTrip;
    if (requests.empty()) requester.tick(now);
    for (const Requester::ToNode& to : requests)
      requester.hear(to.node, {to.request.id, acceptor_id(to.node), {}, answer(to)}, now);
    finished = requester.take_finished();
  }
  BOOST_TEST_REQUIRE(finished.front().outcome.has_value());
  BOOST_TEST(std::get<Registers>(*finished.front().outcome).size() == kRegisters);
  BOOST_TEST(most <= Requester::kMostReadings * kMostNodes);
  BOOST_TEST((now > begun + Requester::Options{}.answer_within / 4));
  BOOST_TEST(requester.is_idle());
}

BOOST_FIXTURE_TEST_CASE(a_list_that_does_not_get_on_ends, Listing) {
  requester.list(now);
  for (const Requester::ToNode& to : requester.take_requests())
    requester.hear(to.node, {to.request.id, acceptor_id(to.node), {}, answer(to)}, now);
  const Time begun = now;
  std::vector<Requester::Finished> finished;
  while (finished.empty()) {
    go_to_next_deadline();
    finished = requester.take_finished();
  }
  BOOST_TEST((finished.front().outcome.error().code == Errc::timed_out));
  BOOST_TEST((now == begun + Requester::Options{}.answer_within));
}

BOOST_FIXTURE_TEST_CASE(a_client_of_a_store_that_began_anew_is_told_that_it_is_another_one, Asking) {
  bring_up_all();
  const auto serve = [&](std::size_t node, const Configuration& known) {
    requester.hear(node,
                   {.id = 0,
                    .acceptor = known.acceptors[node],
                    .known = known,
                    .body = NodeState{.stage = Stage::serving, .epoch = known.epoch, .vote = {}, .text = {}}},
                   now);
  };
  const auto error = [&] {
    requester.read("g", now);
    std::vector<Requester::Finished> finished;
    while (finished.empty()) {
      go_to_next_deadline();
      finished = requester.take_finished();
    }
    return finished.front().outcome.error();
  };
  for (std::size_t node = 0; node < kMostNodes; ++node) serve(node, second_configuration());
  Configuration other = first_configuration();
  for (std::size_t node = 0; node < kMostNodes; ++node) other.acceptors[node] = acceptor_id(20 + node);
  for (std::size_t node = 0; node < kMostNodes; ++node) {
    requester.link_lost(node);
    requester.link_up(node, now);
  }
  serve(0, other);
  BOOST_TEST((error().code == Errc::timed_out));
  serve(1, other);
  const Error told = error();
  BOOST_TEST((told.code == Errc::peer_failed));
  BOOST_TEST(told.what.contains("another store"));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
