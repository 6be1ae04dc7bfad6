// Tests the application's interface over real sockets: messages, receive buffers, the closing barrier, and
// threads.
#include <boost/test/unit_test.hpp>
#include <thread>

#include "tests/lib/group/nodes.hpp"

BOOST_AUTO_TEST_SUITE(node_test)

using namespace rdmc;
using namespace rdmc::testing;

namespace {

std::vector<std::byte> pattern(std::uint64_t seed, std::size_t bytes) {
  std::vector<std::byte> message(bytes);
  for (std::size_t i = 0; i < bytes; ++i) message[i] = static_cast<std::byte>((i + seed) * 31 >> 3 ^ seed);
  return message;
}

/// Returns messages whose lengths are below and above the limit of small messages.
std::vector<std::vector<std::byte>> some_messages(int count) {
  std::vector<std::vector<std::byte>> messages;
  for (int i = 0; i < count; ++i) {
    const std::size_t lengths[] = {0, 1, 4096, 4097, 100'000, 700'001};
    messages.push_back(pattern(static_cast<std::uint64_t>(i), lengths[i % 6]));
  }
  return messages;
}

bool are(const Heard& heard, const std::vector<std::vector<std::byte>>& messages) {
  if (heard.delivered.size() != messages.size()) return false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (heard.delivered[i].first != i || heard.delivered[i].second != messages[i]) {
      const auto& got = heard.delivered[i].second;
      const auto at = std::ranges::mismatch(got, messages[i]).in1 - got.begin();
      BOOST_TEST_MESSAGE("message " << i << " is number " << heard.delivered[i].first << " of " << got.size()
                                    << " bytes, wrong from " << at);
      return false;
    }
  }
  return true;
}

}  // namespace

BOOST_AUTO_TEST_CASE(messages_arrive_in_order_become_stable_and_the_barrier_certifies_them) {
  constexpr std::uint32_t kMembers = 5;
  std::vector<Heard> heard(kMembers);
  const auto messages = some_messages(60);
  Nodes nodes(kMembers);
  for (std::uint32_t i = 0; i < kMembers; ++i)
    BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{2}, {}, heard[i].callbacks()));
  for (std::size_t i = 0; i < messages.size(); ++i)
    BOOST_TEST(nodes[2].send(kGroup, messages[i]).value() == i);
  for (std::uint32_t i = 0; i < kMembers; ++i) {
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].stable == messages.size(); }));
    BOOST_REQUIRE(nodes[i].destroy_group(kGroup, heard[i].on_destroyed()));
  }
  for (std::uint32_t i = 0; i < kMembers; ++i) {
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].destroyed.has_value(); }));
    BOOST_TEST(heard[i].destroyed->has_value());
    BOOST_TEST((i == 2 || are(heard[i], messages)));
    BOOST_TEST(heard[i].reusable == messages.size());
    BOOST_TEST(heard[i].failures.empty());
    std::uint64_t bytes = 0;
    for (const auto& one : messages) bytes += one.size();
    const NodeCounters counters = nodes[i].counters();
    BOOST_TEST(counters.messages_sent == (i == 2 ? messages.size() : 0));
    BOOST_TEST(counters.bytes_sent == (i == 2 ? bytes : 0));
    BOOST_TEST(counters.messages_delivered == (i == 2 ? 0 : messages.size()));
    BOOST_TEST(counters.bytes_delivered == (i == 2 ? 0 : bytes));
    BOOST_TEST((counters.groups_made == 1 && counters.groups_failed == 0 && counters.groups_continued == 0));
    BOOST_TEST((counters.connections_made == kMembers - 1 && counters.connections_ended == 0));
  }
  nodes[0].disconnect(NodeId{1});
  BOOST_TEST(nodes[0].counters().connections_ended == 1U);
}

BOOST_AUTO_TEST_CASE(every_algorithm_brings_all_messages_to_everybody_wherever_they_lie) {
  constexpr std::uint32_t kMembers = 5;
  const auto messages = some_messages(12);
  Nodes nodes(kMembers);
  std::vector<std::optional<relay::Algorithm>> algorithms(relay::kAlgorithms.begin(),
                                                          relay::kAlgorithms.end());
  algorithms.push_back(kAutomatic);
  for (std::uint64_t epoch = 0; epoch < algorithms.size(); ++epoch) {
    std::vector<Heard> heard(kMembers);
    const GroupOptions options{.epoch = epoch, .algorithm = algorithms[epoch], .racks = {7, 3, 7, 3, 5}};
    for (std::uint32_t i = 0; i < kMembers; ++i)
      BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{2}, options, heard[i].callbacks()));
    for (const auto& message : messages) BOOST_REQUIRE(nodes[2].send(kGroup, message));
    for (std::uint32_t i = 0; i < kMembers; ++i)
      BOOST_REQUIRE(nodes[i].destroy_group(kGroup, heard[i].on_destroyed()));
    for (std::uint32_t i = 0; i < kMembers; ++i) {
      BOOST_TEST_REQUIRE(heard[i].wait_until([&] { return heard[i].destroyed.has_value(); }));
      BOOST_TEST((i == 2 || are(heard[i], messages)), "algorithm " << epoch);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_destroyed_group_waits_for_what_was_sent_before) {
  std::vector<Heard> heard(3);
  const auto messages = some_messages(30);
  Nodes nodes(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, {}, heard[i].callbacks()));
    for (std::size_t m = 0; i == 0 && m < messages.size(); ++m)
      BOOST_REQUIRE(nodes[0].send(kGroup, messages[m]));
    BOOST_REQUIRE(nodes[i].destroy_group(kGroup, heard[i].on_destroyed()));
    BOOST_TEST(failed_with(nodes[i].destroy_group(kGroup), Errc::cancelled));
  }
  for (std::uint32_t i = 0; i < 3; ++i) {
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].destroyed.has_value(); }));
    BOOST_TEST(heard[i].destroyed->has_value());
    BOOST_TEST((i == 0 || are(heard[i], messages)));
  }
  BOOST_TEST(failed_with(nodes[0].send(kGroup, {}), Errc::not_found));
}

BOOST_AUTO_TEST_CASE(posted_receive_buffers_are_filled_in_their_order_and_whoever_is_late_gets_all_the_same) {
  std::vector<Heard> heard(3);
  const auto messages = some_messages(12);
  std::vector<std::vector<std::byte>> buffers(messages.size(), std::vector<std::byte>(800'000));
  Nodes nodes(3);
  for (std::uint32_t i = 0; i < 3; ++i)
    BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, {}, heard[i].callbacks(i != 1)));
  for (const auto& message : messages) BOOST_REQUIRE(nodes[0].send(kGroup, message));
  BOOST_TEST(heard[1].wait_until([&] { return heard[1].lengths.contains(0); }));
  for (auto& buffer : buffers) BOOST_REQUIRE(nodes[1].post_receive_buffer(kGroup, buffer));
  BOOST_TEST(failed_with(nodes[0].post_receive_buffer(kGroup, {}), Errc::invalid_argument));
  for (const std::size_t i : {1, 2}) {
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].delivered.size() == messages.size(); }));
    BOOST_TEST(are(heard[i], messages));
  }
  for (std::size_t i = 0; i < messages.size(); ++i)
    BOOST_TEST(std::ranges::equal(std::span(buffers[i]).first(messages[i].size()), messages[i]));
}

BOOST_AUTO_TEST_CASE(several_threads_may_send_and_every_message_arrives_whole_and_once) {
  constexpr std::size_t kThreads = 4, kEach = 300;
  std::vector<std::vector<std::vector<std::byte>>> messages(kThreads);
  std::vector<Heard> heard(3);
  Nodes nodes(3);
  for (std::uint32_t i = 0; i < 3; ++i)
    BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, {}, heard[i].callbacks()));
  std::map<std::uint64_t, const std::vector<std::byte>*> sent;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      for (std::size_t i = 0; i < kEach; ++i)
        messages[t].push_back(pattern(t * kEach + i, i % 50 == 0 ? 20'000 : i % 97));
      threads.emplace_back([&, t] {
        for (const auto& message : messages[t]) {
          const auto number = nodes[0].send(kGroup, message);
          const std::lock_guard lock(mutex);
          BOOST_REQUIRE(number);
          sent[*number] = &message;
        }
      });
    }
  }
  BOOST_TEST(sent.size() == kThreads * kEach);
  for (const std::size_t i : {1, 2}) {
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].delivered.size() == kThreads * kEach; }));
    for (const auto& [number, bytes] : heard[i].delivered) BOOST_REQUIRE(bytes == *sent.at(number));
  }
}

// In a group of more than eight members, members pass on the notes of others.
BOOST_AUTO_TEST_CASE(notes_of_all_members_come_to_the_root_in_their_order) {
  constexpr std::uint32_t kMembers = 12;
  constexpr std::size_t kNotes = 40;
  std::vector<Heard> heard(kMembers);
  Nodes nodes(kMembers);
  BOOST_TEST(failed_with(nodes[0].tell_root(kGroup, {}), Errc::not_found));
  for (std::uint32_t i = 0; i < kMembers; ++i)
    BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{3}, {}, heard[i].callbacks()));
  const auto note = [](std::uint32_t member, std::size_t i) {
    return pattern(member * 1000 + i, i * 531 % 9000);
  };
  for (std::size_t i = 0; i < kNotes; ++i)
    for (std::uint32_t member = 0; member < kMembers; ++member)
      BOOST_REQUIRE(nodes[member].tell_root(kGroup, note(member, i)));
  Heard& root = heard[3];
  for (std::uint32_t member = 0; member < kMembers; ++member) {
    BOOST_TEST_REQUIRE(root.wait_until([&] { return root.notes[NodeId{member}].size() == kNotes; }));
    for (std::size_t i = 0; i < kNotes; ++i) BOOST_TEST((root.notes[NodeId{member}][i] == note(member, i)));
  }
  const std::vector<std::byte> too_long(kMostNote + 1);
  BOOST_TEST(failed_with(nodes[0].tell_root(kGroup, too_long), Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(callbacks_may_call_back_in_and_make_and_destroy_groups) {
  std::vector<Heard> heard(2), later(2);
  const auto first = pattern(1, 50'000), second = pattern(2, 60'000);
  Nodes nodes(2);
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto on = heard[i].callbacks();
    auto stable = on.stable;
    on.stable = [&, i, stable](std::uint64_t count) {
      stable(count);
      if (count != 1) return;
      BOOST_REQUIRE(nodes[i].create_group(GroupNumber{8}, nodes.ids, NodeId{1}, {}, later[i].callbacks()));
      if (i == 1) BOOST_REQUIRE(nodes[1].send(GroupNumber{8}, second));
      BOOST_REQUIRE(nodes[i].destroy_group(kGroup, heard[i].on_destroyed()));
    };
    BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, {}, on));
  }
  BOOST_REQUIRE(nodes[0].send(kGroup, first));
  for (std::uint32_t i = 0; i < 2; ++i)
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].destroyed.has_value(); }));
  BOOST_TEST(later[0].wait_until([&] { return later[0].delivered.size() == 1; }));
  BOOST_TEST(are(later[0], {second}));
}

BOOST_AUTO_TEST_CASE(an_application_may_own_the_loop) {
  Heard at_root, at_leaf;
  const auto messages = some_messages(6);
  auto root = Node::create(
      {.id = NodeId{0}, .address = Address::ipv4(127, 0, 3, 21, 0), .fabric = "udp", .own_thread = false});
  auto leaf = Node::create(
      {.id = NodeId{1}, .address = Address::ipv4(127, 0, 3, 22, 0), .fabric = "udp", .own_thread = false});
  BOOST_REQUIRE((root && leaf));
  const auto from_root = (*root)->offer(NodeId{1}), from_leaf = (*leaf)->offer(NodeId{0});
  BOOST_REQUIRE(((*root)->connect(NodeId{1}, *from_leaf) && (*leaf)->connect(NodeId{0}, *from_root)));
  BOOST_REQUIRE((*root)->create_group(kGroup, {NodeId{0}, NodeId{1}}, NodeId{0}, {}, at_root.callbacks()));
  BOOST_REQUIRE((*leaf)->create_group(kGroup, {NodeId{0}, NodeId{1}}, NodeId{0}, {}, at_leaf.callbacks()));
  for (const auto& message : messages) BOOST_REQUIRE((*root)->send(kGroup, message));
  for (int turn = 0; turn < 1'000'000 && at_root.stable < messages.size(); ++turn) {
    (*root)->poll(Duration{});
    (*leaf)->poll(Duration{});
  }
  BOOST_TEST(at_root.stable == messages.size());
  BOOST_TEST(are(at_leaf, messages));
}

BOOST_AUTO_TEST_CASE(survivors_of_a_root_that_goes_away_go_on_under_another_and_close_in_the_end) {
  const GroupOptions options{.algorithm = relay::Algorithm::hybrid,
                             .racks = {1, 2, 1, 2},
                             .receive_timeout = seconds(30),
                             .can_continue = true};
  std::vector<Heard> heard(4);
  const std::vector<std::byte> large(3'000'000, std::byte{5}), small(100, std::byte{6});
  Nodes nodes(4);
  for (std::uint32_t i = 0; i < 4; ++i)
    BOOST_REQUIRE(nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, options, heard[i].callbacks(i != 3)));
  const std::vector<NodeId> survivors{nodes.ids.begin() + 1, nodes.ids.end()};
  std::vector<NodeId> outsiders = nodes.ids;
  outsiders.push_back(NodeId{17});
  BOOST_TEST(failed_with(nodes[1].continue_group(kGroup, 1, outsiders, NodeId{1}), Errc::peer_failed));
  BOOST_REQUIRE(nodes[0].send(kGroup, small));
  BOOST_REQUIRE(nodes[0].send(kGroup, large));
  for (const std::size_t i : {1, 2})
    BOOST_TEST(heard[i].wait_until([&] { return !heard[i].delivered.empty(); }));
  nodes.nodes[0].reset();
  for (const std::size_t i : {1, 2, 3}) {
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].failures.size() == 1; }));
    BOOST_TEST((heard[i].failures[0].node == NodeId{0}));
  }
  BOOST_TEST(failed_with(nodes[1].continue_group(kGroup, 0, survivors, NodeId{1}), Errc::invalid_argument));
  BOOST_TEST(failed_with(nodes[1].continue_group(kGroup, 1, survivors, NodeId{0}), Errc::invalid_argument));
  BOOST_TEST(failed_with(nodes[1].continue_group(GroupNumber{9}, 1, survivors, NodeId{1}), Errc::not_found));
  for (const std::size_t i : {1, 2, 3})
    BOOST_REQUIRE(nodes[i].continue_group(kGroup, 1, survivors, NodeId{1}));
  // Node 3 had no memory for these messages, which the others have delivered. It must get them as soon as it
  // has posted memory.
  std::vector<std::byte> first(100), second(3'000'000), third(100);
  for (auto* const buffer : {&first, &second, &third})
    BOOST_REQUIRE(nodes[3].post_receive_buffer(kGroup, *buffer));
  for (const std::size_t i : {1, 2, 3}) {
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].continued.has_value(); }));
    BOOST_TEST((*heard[i].continued == 1 || *heard[i].continued == 2));
    BOOST_TEST(*heard[i].continued == *heard[1].continued);
    BOOST_TEST((heard[i].delivered.at(0).second == small));
  }
  BOOST_REQUIRE(nodes[1].send(kGroup, small));
  const std::uint64_t last = *heard[1].continued;
  for (const std::size_t i : {2, 3}) {
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].delivered.size() == last + 1; }));
    BOOST_TEST((heard[i].delivered.back() == std::pair(last, small)));
  }
  for (const std::size_t i : {1, 2, 3})
    BOOST_REQUIRE(nodes[i].destroy_group(kGroup, heard[i].on_destroyed()));
  for (const std::size_t i : {1, 2, 3}) {
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].destroyed.has_value(); }));
    BOOST_TEST(heard[i].destroyed->has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_member_that_is_left_out_loses_its_connection_and_not_the_next_one) {
  for (const bool is_back : {false, true}) {
    std::vector<Heard> heard(3);
    Nodes nodes(3);
    for (std::uint32_t i = 0; i < 3; ++i)
      BOOST_REQUIRE(
          nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, {.can_continue = true}, heard[i].callbacks()));
    if (is_back) {
      nodes[2].disconnect(NodeId{0});
      nodes[0].disconnect(NodeId{2});
      const auto offer = nodes[0].offer(NodeId{2}), answer = nodes[2].offer(NodeId{0});
      BOOST_REQUIRE((offer && answer));
      BOOST_REQUIRE((nodes[0].connect(NodeId{2}, *answer) && nodes[2].connect(NodeId{0}, *offer)));
    }
    for (const std::size_t i : {0, 1})
      BOOST_REQUIRE(nodes[i].continue_group(kGroup, 1, {NodeId{0}, NodeId{1}}, NodeId{0}));
    for (const std::size_t i : {0, 1})
      BOOST_TEST(heard[i].wait_until([&] { return heard[i].continued.has_value(); }));
    BOOST_TEST(nodes[0].is_connected(NodeId{2}) == is_back);
    BOOST_TEST(!nodes[1].is_connected(NodeId{2}));
  }
}

BOOST_AUTO_TEST_SUITE_END()
