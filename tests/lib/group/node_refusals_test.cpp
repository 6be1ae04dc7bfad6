// Tests wrong input and failures at the application's interface. Each error must have a name, and no call may
// hang.
#include <boost/test/unit_test.hpp>

#include "tests/lib/group/nodes.hpp"

BOOST_AUTO_TEST_SUITE(node_refusals_test)

using namespace rdmc;
using namespace rdmc::testing;

/// The options of a group and the length of a message that has 20 blocks in it. The message is short, because
/// the upcalls allocate and copy it on the fabric thread, and a node answers no other node during an upcall.
/// A node that is silent for 536 ms counts as dead. On a busy machine, an upcall with a message of 5 MB took
/// longer under ThreadSanitizer.
const GroupOptions kSmallBlocks{.block_bytes = 16 * 1024};
constexpr std::size_t kMessageBytes = 320'000;

BOOST_AUTO_TEST_CASE(groups_that_cannot_be_are_refused_by_name) {
  Nodes nodes(2);
  const auto make = [&](std::vector<NodeId> members, std::uint32_t root, const GroupOptions& options = {}) {
    return nodes[0].create_group(kGroup, std::move(members), NodeId{root}, options, {});
  };
  constexpr NodeId a{0}, b{1}, outsider{9};
  BOOST_TEST(failed_with(make({}, 0), Errc::invalid_argument));
  BOOST_TEST(failed_with(make({a, b, a}, 0), Errc::invalid_argument));
  BOOST_TEST(failed_with(make({a, b}, 9), Errc::invalid_argument));
  BOOST_TEST(failed_with(make({b}, 1), Errc::invalid_argument));
  BOOST_TEST(failed_with(make({a, b}, 0, {.block_bytes = 1U << 31}), Errc::invalid_argument));
  BOOST_TEST(failed_with(make({a, b}, 0, {.algorithm = relay::Algorithm{99}}), Errc::invalid_argument));
  BOOST_TEST(failed_with(make({a, b}, 0, {.racks = {1}}), Errc::invalid_argument));
  BOOST_TEST(failed_with(make({a, b}, 0, {.algorithm = kAutomatic, .racks = {1}}), Errc::invalid_argument));
  BOOST_TEST(failed_with(make({a, b}, 0, {.can_continue = true, .read_only = true}), Errc::invalid_argument));
  BOOST_TEST(failed_with(make({a, b}, 0, {.small_bytes = 1 << 20}), Errc::invalid_argument));
  BOOST_TEST(failed_with(make({a, outsider}, 0), Errc::peer_failed));
  BOOST_REQUIRE(make({a, b}, 0));
  BOOST_TEST(failed_with(make({a, b}, 0, {.epoch = 1}), Errc::already_exists));
}

BOOST_AUTO_TEST_CASE(whom_a_member_must_be_connected_to_is_the_algorithms_matter) {
  Nodes nodes(4, true);
  const auto make = [&](std::optional<relay::Algorithm> algorithm) {
    return nodes[1].create_group(kGroup, nodes.ids, NodeId{0}, {.algorithm = algorithm}, {});
  };
  BOOST_TEST(failed_with(make(relay::Algorithm::binomial_pipeline), Errc::peer_failed));
  BOOST_TEST(failed_with(make(relay::Algorithm::chain), Errc::peer_failed));
  for (const auto whose_hosts_count : {std::optional(relay::Algorithm::host_pipeline), {}})
    BOOST_TEST(failed_with(make(whose_hosts_count), Errc::peer_failed));
  BOOST_TEST(make(relay::Algorithm::sequential).has_value());
}

BOOST_AUTO_TEST_CASE(calls_that_make_no_sense_are_refused_by_name) {
  Heard heard;
  Nodes nodes(2);
  BOOST_TEST(failed_with(nodes[0].send(kGroup, {}), Errc::not_found));
  BOOST_TEST(failed_with(nodes[0].destroy_group(kGroup), Errc::not_found));
  BOOST_TEST(failed_with(nodes[0].offer(NodeId{0}), Errc::invalid_argument));
  BOOST_TEST(failed_with(nodes[0].connect(NodeId{1}, {}), Errc::invalid_argument));
  BOOST_TEST(failed_with(nodes[0].connect(NodeId{5}, {}), Errc::not_found));
  BOOST_REQUIRE(nodes[1].create_group(kGroup, nodes.ids, NodeId{0}, {}, heard.callbacks()));
  BOOST_TEST(failed_with(nodes[1].send(kGroup, {}), Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(a_length_that_no_message_has_is_refused_and_costs_nothing) {
  std::vector<Heard> heard(2);
  const std::vector<std::byte> message(100'000);
  Nodes nodes(2);
  for (std::uint32_t i = 0; i < 2; ++i)
    BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, {}, heard[i].callbacks()));
  const std::span endless(message.data(), std::size_t{1} << 62);  // No code reads these bytes.
  BOOST_TEST(failed_with(nodes[0].send(kGroup, endless), Errc::invalid_argument));
  const auto sent = nodes[0].send(kGroup, message);
  BOOST_TEST((sent && *sent == 0));
  BOOST_TEST(heard[1].wait_until([&] { return heard[1].delivered.size() == 1; }));
}

BOOST_AUTO_TEST_CASE(a_group_destroyed_in_mid_message_delivers_it_and_refuses_all_else_by_name) {
  std::vector<Heard> heard(2);
  const std::vector<std::byte> message(kMessageBytes, std::byte{1});
  std::vector<std::byte> buffer(message.size());
  Nodes nodes(2);
  for (std::uint32_t i = 0; i < 2; ++i)
    BOOST_REQUIRE(
        nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, kSmallBlocks, heard[i].callbacks(false)));
  BOOST_REQUIRE(nodes[0].send(kGroup, message));
  BOOST_TEST(heard[1].wait_until([&] { return heard[1].lengths.contains(0); }));
  BOOST_REQUIRE(nodes[0].destroy_group(kGroup, heard[0].on_destroyed()));
  BOOST_TEST(failed_with(nodes[0].send(kGroup, message), Errc::cancelled));
  BOOST_TEST(failed_with(nodes[0].destroy_group(kGroup), Errc::cancelled));
  BOOST_REQUIRE(nodes[1].post_receive_buffer(kGroup, buffer));
  BOOST_REQUIRE(nodes[1].destroy_group(kGroup, heard[1].on_destroyed()));
  for (Heard& one : heard) {
    BOOST_TEST(one.wait_until([&] { return one.destroyed.has_value(); }));
    BOOST_TEST(one.destroyed->has_value());
  }
  BOOST_TEST((buffer == message));
}

BOOST_AUTO_TEST_CASE(a_group_of_one_sends_to_nobody_and_closes) {
  Heard heard;
  const std::vector<std::byte> large(100'000), small(3);
  Nodes nodes(1);
  BOOST_REQUIRE(nodes[0].create_group(kGroup, nodes.ids, NodeId{0}, {}, heard.callbacks()));
  BOOST_REQUIRE(nodes[0].send(kGroup, large));
  BOOST_REQUIRE(nodes[0].send(kGroup, small));
  BOOST_REQUIRE(nodes[0].destroy_group(kGroup, heard.on_destroyed()));
  BOOST_TEST(heard.wait_until([&] { return heard.destroyed.has_value(); }));
  BOOST_TEST(heard.destroyed->has_value());
  BOOST_TEST(heard.reusable == 2u);
}

BOOST_AUTO_TEST_CASE(a_receive_buffer_that_is_too_small_ends_the_group_everywhere_and_says_whose_it_was) {
  for (const std::size_t bytes : {1000, 100'000}) {
    std::vector<Heard> heard(3);
    std::vector<std::byte> buffer(bytes - 1);
    const std::vector<std::byte> message(bytes);
    Nodes nodes(3);
    for (std::uint32_t i = 0; i < 3; ++i)
      BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, {}, heard[i].callbacks(i != 1)));
    BOOST_REQUIRE(nodes[1].post_receive_buffer(kGroup, buffer));
    BOOST_REQUIRE(nodes[0].send(kGroup, message));
    for (Heard& one : heard) {
      BOOST_TEST(one.wait_until([&] { return one.failures.size() == 1; }));
      BOOST_TEST((one.failures[0].node == NodeId{1}));
      BOOST_TEST(static_cast<int>(one.failures[0].error.code) == static_cast<int>(Errc::invalid_argument));
    }
    BOOST_TEST(heard[1].failures[0].delivered == 0u);
    BOOST_TEST(failed_with(nodes[0].send(kGroup, message), Errc::peer_failed));
    // After the failed group is destroyed, the memory belongs to the application again.
    for (std::uint32_t i = 0; i < 3; ++i) {
      BOOST_REQUIRE(nodes[i].destroy_group(kGroup, heard[i].on_destroyed()));
      BOOST_TEST(heard[i].wait_until([&] { return heard[i].destroyed.has_value(); }));
      BOOST_TEST(failed_with(*heard[i].destroyed, Errc::invalid_argument));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_receiver_that_never_posts_memory_is_a_failure_after_the_applications_own_time) {
  std::vector<Heard> heard(2);
  const std::vector<std::byte> message(100'000);
  Nodes nodes(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, {.receive_timeout = milliseconds(300)},
                                        heard[i].callbacks(false)));
  }
  BOOST_REQUIRE(nodes[0].send(kGroup, message));
  for (Heard& one : heard) {
    BOOST_TEST(one.wait_until([&] { return one.failures.size() == 1; }));
    BOOST_TEST((one.failures[0].node == NodeId{1}));
    BOOST_TEST(static_cast<int>(one.failures[0].error.code) == static_cast<int>(Errc::timed_out));
  }
}

BOOST_AUTO_TEST_CASE(a_node_that_goes_away_in_mid_message_fails_its_groups_and_no_others) {
  std::vector<Heard> with(4), without(4);
  const std::vector<std::byte> message(kMessageBytes, std::byte{9});
  Nodes nodes(4);
  for (std::uint32_t i = 0; i < 4; ++i)
    BOOST_REQUIRE(
        nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, kSmallBlocks, with[i].callbacks(i != 3)));
  for (std::uint32_t i = 0; i < 3; ++i) {
    BOOST_REQUIRE(nodes[i].create_group(GroupNumber{8}, {nodes.ids.begin(), nodes.ids.begin() + 3}, NodeId{0},
                                        kSmallBlocks, without[i].callbacks()));
  }
  BOOST_REQUIRE(nodes[0].send(kGroup, message));
  BOOST_TEST(with[3].wait_until([&] { return with[3].lengths.contains(0); }));
  nodes.nodes[3].reset();
  for (std::uint32_t i = 0; i < 3; ++i) {
    BOOST_TEST(with[i].wait_until([&] { return with[i].failures.size() == 1; }));
    BOOST_TEST((with[i].failures[0].node == NodeId{3}));
    BOOST_TEST(with[i].failures[0].stable == 0u);
  }
  BOOST_REQUIRE(nodes[0].send(GroupNumber{8}, message));
  for (const std::size_t i : {1, 2})
    BOOST_TEST(without[i].wait_until([&] { return without[i].delivered.size() == 1; }));
}

BOOST_AUTO_TEST_SUITE_END()
