// Tests in which order and in which trains the software fabric sends.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "dataplane/fabric/software_fabric.hpp"
#include "tests/dataplane/fabric/cable.hpp"

BOOST_AUTO_TEST_SUITE(transmit_test)

using namespace rdmc;
using namespace rdmc::fabric;
using testing::Cable;

BOOST_AUTO_TEST_CASE(works_leave_whole_and_in_the_order_in_which_they_were_posted_over_all_queue_pairs) {
  // Each work request is one train, or shorter than a train. The first congestion window permits two trains.
  for (const bool is_train : {true, false}) {
    Cable cable;
    std::array<std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>>, 3> pairs;
    for (auto& pair : pairs) pair = cable.connect();
    const std::size_t bytes = is_train ? 7 * cable.a.fabric.info().path_mtu : 16 << 10;
    std::vector<std::byte> target(bytes);
    const auto region = *cable.b.fabric.register_memory(target);
    const std::vector<std::size_t> order{0, 1, 0, 2, 1, 2};
    std::vector<std::vector<std::byte>> works;
    for (std::size_t i = 0; i < order.size(); ++i)
      works.emplace_back(bytes, static_cast<std::byte>(0x40 + i));
    for (std::size_t i = 0; i < order.size(); ++i)
      BOOST_REQUIRE(
          pairs[order[i]].first->post_write({.bytes = works[i], .remote_key = region->remote_key()}));
    cable.turn();
    std::vector<int> left;
    for (const auto& train : cable.a.port.sent) {
      const int work = static_cast<int>(train[train.size() / 2]) - 0x40;
      if (left.empty() || left.back() != work) left.push_back(work);
    }
    BOOST_TEST(left == (std::vector<int>{0, 1, 2, 3, 4, 5}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(small_messages_to_several_peers_leave_in_trains) {
  Cable cable;
  std::array<std::pair<std::unique_ptr<QueuePair>, std::unique_ptr<QueuePair>>, 2> pairs;
  for (auto& pair : pairs) pair = cable.connect();
  std::vector<std::byte> target(100), message(100);
  const auto region = *cable.b.fabric.register_memory(target);
  for (int i = 0; i < 8; ++i)
    for (const auto& pair : pairs)
      BOOST_REQUIRE(pair.first->post_write({.bytes = message, .remote_key = region->remote_key()}));
  cable.turn();
  BOOST_TEST(cable.a.port.sent.size() <= 4u);  // Up to two trains to each peer.
}

BOOST_AUTO_TEST_CASE(trains_go_to_whoever_takes_them_and_datagrams_one_by_one_to_others) {
  for (const bool loses_trains : {false, true}) {
    Cable cable({}, {.loses_uncut_trains = loses_trains});
    auto [at_a, at_b] = cable.connect();
    const std::size_t path_mtu = cable.a.fabric.info().path_mtu;
    std::vector<std::byte> target(7 * path_mtu), source(7 * path_mtu, std::byte{0x11});
    const auto region = *cable.b.fabric.register_memory(target);
    BOOST_REQUIRE(at_a->post_write({.bytes = source, .remote_key = region->remote_key()}));
    cable.turn(3);
    BOOST_TEST((target == source));
    const auto longest = std::ranges::max(cable.a.port.sent, {}, &std::vector<std::byte>::size).size();
    BOOST_TEST((longest > 2 * path_mtu) == !loses_trains);
  }
}

BOOST_AUTO_TEST_CASE(a_message_without_end_does_not_shut_out_what_is_posted_after_it) {
  Cable cable;
  auto [long_from, long_to] = cable.connect();
  auto [short_from, short_to] = cable.connect();
  std::vector<std::byte> target(64 << 20), message(64 << 20), little(100, std::byte{0x22});
  const auto region = *cable.b.fabric.register_memory(target);
  BOOST_REQUIRE(long_from->post_write({.bytes = message, .remote_key = region->remote_key()}));
  BOOST_REQUIRE(short_from->post_write({.bytes = little, .remote_key = region->remote_key()}));
  Completion completion;
  std::size_t turns = 0;
  for (; turns < 100 && short_from->poll_completions({&completion, 1}) == 0; ++turns) {
    // So there is never space for all packets that the window of the long message permits.
    cable.a.port.room = 1;
    cable.turn();
  }
  BOOST_TEST(turns < 25u);
}

/// Responses have no post order. In an earlier version one packet of them left for each MB of the other
/// message.
BOOST_AUTO_TEST_CASE(a_message_without_end_leaves_room_for_the_responses_to_a_read) {
  Cable cable;
  auto [writer, written_to] = cable.connect();
  auto [read_at, reader] = cable.connect();
  std::vector<std::byte> target(32 << 20), message(32 << 20), source(512 << 10), read(512 << 10);
  const auto written = *cable.b.fabric.register_memory(target);
  const auto readable =
      *cable.a.fabric.register_memory(source, MemoryUse::general, RemoteAccess::read | RemoteAccess::write);
  BOOST_REQUIRE(writer->post_write({.bytes = message, .remote_key = written->remote_key()}));
  BOOST_REQUIRE(reader->post_read(
      {.bytes = read, .remote_address = readable->remote_address(), .remote_key = readable->remote_key()}));
  std::array<Completion, 1> completion;
  bool has_read = false, has_written = false;
  for (int turns = 0; turns < 10'000 && !has_read && !has_written; ++turns) {
    cable.a.port.room = 1;
    cable.turn();
    has_read = reader->poll_completions(completion) == 1;
    has_written = writer->poll_completions(completion) == 1;
  }
  BOOST_TEST(has_read);
  BOOST_TEST(!has_written);
}

BOOST_AUTO_TEST_CASE(an_answer_leaves_before_what_was_posted) {
  Cable cable;
  auto [from_a, to_b] = cable.connect();
  auto [to_a, from_b] = cable.connect();
  std::vector<std::byte> target(100'000), block(60'000), little(100);
  const auto at_a = *cable.a.fabric.register_memory(target);
  const auto at_b = *cable.b.fabric.register_memory(target);
  BOOST_REQUIRE(from_b->post_write({.bytes = little, .remote_key = at_a->remote_key()}));
  cable.b.fabric.progress(cable.now);
  cable.a.fabric.progress(cable.now);
  BOOST_TEST(cable.a.port.sent.empty());  // The answer leaves together with the next posted work request.
  BOOST_REQUIRE(from_a->post_write({.bytes = block, .remote_key = at_b->remote_key()}));
  cable.a.fabric.progress(cable.now);
  BOOST_REQUIRE(cable.a.port.sent.size() == 2u);
  BOOST_TEST(cable.a.port.sent.front().size() < 100u);
  BOOST_TEST(cable.a.port.sent.back().size() > block.size());
}

BOOST_AUTO_TEST_SUITE_END()
