#include "lib/replica/perturbation.hpp"

#include <boost/test/unit_test.hpp>
#include <deque>
#include <vector>

#include "tests/lib/replica/fake_network.hpp"

BOOST_AUTO_TEST_SUITE(perturbation_test)

using namespace rdmc;
using namespace rdmc::replica;
using namespace rdmc::replica::testing;

namespace {

constexpr std::uint32_t kRanks = 4, kMessages = 20;

/// Rank 0 receives numbered messages of the other ranks from any source, through a Perturbation. Returns the
/// sources in the order in which they have matched. `turns` gets the number of turns that were needed.
std::vector<std::uint32_t> receive_all(std::uint64_t seed, int& turns) {
  FakeNetwork network(kRanks, 1);
  network.is_tight = false;
  Messenger& messenger = network.messenger(0);
  Perturbation perturbation(seed, kRanks);
  std::deque<std::uint32_t> into;
  std::vector<RequestId> requests;
  for (std::uint32_t i = 0; i < kMessages * (kRanks - 1); ++i)
    requests.push_back(messenger.receive(
        ContextId{1}, std::as_writable_bytes(std::span(&into.emplace_back(), 1)), Messenger::kAny, 5));
  for (std::uint32_t number = 0; number < kMessages; ++number)
    for (std::uint32_t from = 1; from < kRanks; ++from) {
      std::vector<std::byte> record(kEagerHeadBytes + sizeof number);
      encode(Eager{{.context = ContextId{1}, .source = from, .tag = 5}, std::as_bytes(std::span(&number, 1))},
             record);
      BOOST_REQUIRE(perturbation.on_records(messenger, ProcessId{from}, record).has_value());
    }
  for (turns = 0; perturbation.has_delayed(); ++turns) {
    BOOST_REQUIRE(perturbation.turn(messenger).empty());
    BOOST_REQUIRE(turns < static_cast<int>(kMessages * (Perturbation::kMostTurns + 1)));
  }
  std::vector<std::uint32_t> sources, next(kRanks);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto done = messenger.take(requests[i]);
    BOOST_REQUIRE(done.has_value());
    BOOST_REQUIRE_EQUAL(into[i], next[done->source]++);  // A message does not overtake those of its source.
    sources.push_back(done->source);
  }
  return sources;
}

}  // namespace

BOOST_AUTO_TEST_CASE(messages_arrive_in_another_order_but_each_source_keeps_its_own) {
  int turns = 0;
  const auto usual = receive_all(1, turns);
  BOOST_TEST(turns > 1);
  int others = 0;
  for (std::uint64_t seed = 2; seed < 20; ++seed) others += receive_all(seed, turns) != usual ? 1 : 0;
  BOOST_TEST(others > 10);
}

BOOST_AUTO_TEST_CASE(the_order_is_a_function_of_the_seed) {
  int turns = 0, again = 0;
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    BOOST_TEST(receive_all(seed, turns) == receive_all(seed, again));
    BOOST_TEST(turns == again);
  }
}

BOOST_AUTO_TEST_CASE(what_has_come_from_a_process_that_has_ended_is_handed_over) {
  FakeNetwork network(2, 1);
  Perturbation perturbation(1, 2);
  std::vector<std::byte> record(kEagerHeadBytes);
  encode(Eager{{.context = ContextId{1}, .source = 1, .tag = 5}, {}}, record);
  for (int i = 0; i < 10; ++i)
    BOOST_REQUIRE(perturbation.on_records(network.messenger(0), ProcessId{1}, record).has_value());
  BOOST_TEST(perturbation.has_delayed());
  perturbation.release(network.messenger(0), ProcessId{1});
  BOOST_TEST(!perturbation.has_delayed());
  BOOST_TEST(network.messenger(0).counters().unexpected == 10U);
}

BOOST_AUTO_TEST_CASE(requests_are_looked_at_in_any_order) {
  Perturbation perturbation(1, 1);
  std::vector<RequestId> requests;
  for (std::uint64_t i = 0; i < 20; ++i) requests.push_back(RequestId{i});
  std::vector<std::size_t> indices;
  const auto shuffled = perturbation.shuffled(requests, indices);
  BOOST_REQUIRE_EQUAL(shuffled.size(), requests.size());
  for (std::size_t i = 0; i < shuffled.size(); ++i) BOOST_TEST((shuffled[i] == requests[indices[i]]));
  BOOST_TEST((shuffled != requests));
}

BOOST_AUTO_TEST_SUITE_END()
