// Tests nodes without their own thread, in a loop of the application. The loop waits for the nodes'
// descriptors by each of the methods that Linux offers.
#include <liburing.h>
#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <string>
#include <thread>

#include "dataplane/base/descriptor.hpp"
#include "lib/group/node_group.hpp"
#include "tests/lib/group/nodes.hpp"

namespace rdmc::testing {
BOOST_AUTO_TEST_SUITE(own_loop_test)
namespace {

/// This limit is longer than anything in this test takes. A wait that reaches the limit has missed its event.
constexpr int kTooLongMs = 60'000;
using Descriptors = std::array<int, 2>;

/// Repeats a wait that was interrupted. The kernel may interrupt a thread even without a signal, for the work
/// of an io_uring of this thread.
template <typename Wait>
int uninterrupted(Wait wait) {
  int result = 0;
  do {
    result = wait();
  } while (result < 0 && errno == EINTR);
  return result;
}

// Each of these functions waits until one of the descriptors is readable, for at most `longest` milliseconds.

bool by_poll(const Descriptors& descriptors, int longest) {
  std::array<pollfd, 2> watched{{{descriptors[0], POLLIN, 0}, {descriptors[1], POLLIN, 0}}};
  return uninterrupted([&] { return ::poll(watched.data(), watched.size(), longest); }) > 0;
}

bool by_epoll(const Descriptors& descriptors, int longest) {
  const Descriptor epoll(epoll_create1(EPOLL_CLOEXEC));
  for (const int one : descriptors) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    BOOST_TEST_REQUIRE(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, one, &event) == 0);
  }
  epoll_event event;
  return uninterrupted([&] { return epoll_wait(epoll.get(), &event, 1, longest); }) > 0;
}

bool by_io_uring(const Descriptors& descriptors, int longest) {
  io_uring ring;
  BOOST_TEST_REQUIRE(io_uring_queue_init(4, &ring, 0) == 0);
  for (const int one : descriptors) io_uring_prep_poll_add(io_uring_get_sqe(&ring), one, POLLIN);
  io_uring_submit(&ring);
  __kernel_timespec patience{.tv_sec = longest / 1000, .tv_nsec = longest % 1000 * 1'000'000};
  io_uring_cqe* done = nullptr;
  int waited = 0;
  do {
    waited = io_uring_wait_cqe_timeout(&ring, &done, &patience);
  } while (waited == -EINTR);
  const bool readable = waited == 0;
  io_uring_queue_exit(&ring);
  return readable;
}

struct Way {
  const char* name;
  bool (*wait)(const Descriptors&, int);
};
std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.name;
}
constexpr Way kWays[] = {{"poll", by_poll}, {"epoll", by_epoll}, {"io_uring", by_io_uring}};
constexpr const char* kFabrics[] = {"udp", "shm", "auto"};

/// Two connected nodes without their own threads. They have a group, and the first node is the root.
class Pair {
 public:
  /// If `is_watched` is true, the nodes have descriptors, and one call of poll() makes many turns.
  explicit Pair(const std::string& fabric, bool is_watched = true) {
    const std::vector<NodeId> ids{NodeId{0}, NodeId{1}};
    for (std::size_t i = 0; i < 2; ++i) {
      auto node = Node::create({.id = ids[i],
                                .address = Address::ipv4(127, 0, 3, static_cast<std::uint8_t>(31 + i), 0),
                                .fabric = fabric,
                                .own_thread = false});
      BOOST_TEST_REQUIRE(node.has_value());
      nodes[i] = std::move(*node);
      if (!is_watched) continue;
      descriptors[i] = nodes[i]->descriptor().value();
      BOOST_TEST(nodes[i]->descriptor().value() == descriptors[i]);
    }
    const auto from_root = nodes[0]->offer(ids[1]), from_leaf = nodes[1]->offer(ids[0]);
    BOOST_TEST_REQUIRE(nodes[0]->connect(ids[1], *from_leaf).has_value());
    BOOST_TEST_REQUIRE(nodes[1]->connect(ids[0], *from_root).has_value());
    for (std::size_t i = 0; i < 2; ++i)
      BOOST_TEST_REQUIRE(nodes[i]->create_group(kGroup, ids, ids[0], {}, heard[i].callbacks()).has_value());
  }
  void give_turns() {
    for (std::size_t i = 0; i < 2; ++i)
      if (by_poll({descriptors[i], descriptors[i]}, 0)) nodes[i]->poll({});
  }
  /// Waits, and gives the nodes turns, until the root knows that both members have `messages` messages.
  void run_until_stable(const Way& way, std::uint64_t messages) {
    while (heard[0].stable < messages) {
      BOOST_TEST_REQUIRE(way.wait(descriptors, kTooLongMs));
      give_turns();
    }
  }

  std::array<std::unique_ptr<Node>, 2> nodes;
  std::array<Heard, 2> heard;
  Descriptors descriptors{};
};

BOOST_DATA_TEST_CASE(a_loop_that_waits_for_the_descriptors_misses_nothing,
                     boost::unit_test::data::make(kFabrics) * boost::unit_test::data::make(kWays), fabric,
                     way) {
  Pair pair(fabric);
  const std::vector<std::byte> small(100, std::byte{5}), large(3'000'000, std::byte{6});
  std::uint64_t messages = 0;
  for (int round = 0; round < 20; ++round) {
    BOOST_TEST_REQUIRE(pair.nodes[0]->send(kGroup, round % 5 == 4 ? large : small).has_value());
    pair.run_until_stable(way, ++messages);
  }
  BOOST_TEST_REQUIRE(pair.heard[1].delivered.size() == messages);
  BOOST_TEST((pair.heard[1].delivered[3].second == small));
  BOOST_TEST((pair.heard[1].delivered[19].second == large));
}

BOOST_DATA_TEST_CASE(the_descriptors_of_nodes_with_nothing_to_do_are_not_readable,
                     boost::unit_test::data::make(kFabrics), fabric) {
  Pair pair(fabric);
  const std::vector<std::byte> bytes(10'000, std::byte{5});
  BOOST_TEST_REQUIRE(pair.nodes[0]->send(kGroup, bytes).has_value());
  pair.run_until_stable(kWays[0], 1);
  // When the last acknowledgements and timers are done, there must be a moment in which no descriptor is
  // readable.
  int looks = 0;
  while (by_poll(pair.descriptors, 0) && ++looks < 1'000'000) pair.give_turns();
  BOOST_TEST(looks < 1'000'000);
}

BOOST_DATA_TEST_CASE(what_another_thread_sends_wakes_the_loop, boost::unit_test::data::make(kFabrics),
                     fabric) {
  Pair pair(fabric);
  const std::vector<std::byte> bytes(10'000, std::byte{5});
  std::size_t sent = 0;
  std::jthread other([&] {
    for (int i = 0; i < 100; ++i) sent += pair.nodes[0]->send(kGroup, bytes).has_value() ? 1 : 0;
  });
  pair.run_until_stable(kWays[0], 100);
  other.join();
  BOOST_TEST(sent == 100u);
  BOOST_TEST(pair.heard[1].delivered.size() == 100u);
}

BOOST_AUTO_TEST_CASE(another_thread_waits_for_no_turn_of_the_application) {
  Pair pair("udp");
  std::thread([&] {
    BOOST_TEST((pair.nodes[0]->offer(NodeId{5}).error().code == Errc::invalid_argument));
    BOOST_TEST((pair.nodes[0]->connect(NodeId{5}, {}).error().code == Errc::invalid_argument));
    BOOST_TEST((pair.nodes[0]->create_group(GroupNumber{8}, {NodeId{0}}, NodeId{0}, {}, {}).error().code ==
                Errc::invalid_argument));
    BOOST_TEST((pair.nodes[0]->allocate(100).error().code == Errc::invalid_argument));
    BOOST_TEST(!pair.nodes[0]->is_connected(NodeId{1}));
    pair.nodes[0]->disconnect(NodeId{1});
  }).join();
  BOOST_TEST(pair.nodes[0]->is_connected(NodeId{1}));
  pair.nodes[0]->poll({});
  BOOST_TEST(!pair.nodes[0]->is_connected(NodeId{1}));
}

BOOST_AUTO_TEST_CASE(only_the_thread_that_created_a_node_drives_it_and_not_in_an_upcall) {
  Pair pair("udp");
  const auto refuses = [](const auto& result) { return result.error().code == Errc::invalid_argument; };
  std::thread([&] {
    BOOST_TEST(refuses(pair.nodes[0]->poll({})));
    BOOST_TEST(refuses(pair.nodes[0]->descriptor()));
  }).join();
  const auto own = Node::create({.address = Address::ipv4(127, 0, 3, 34, 0), .fabric = "udp"}).value();
  BOOST_TEST(refuses(own->poll({})));
  Result<void> in_upcall;
  GroupCallbacks callbacks;
  callbacks.failed = [&](const GroupFailure&) { in_upcall = pair.nodes[0]->poll({}); };
  BOOST_TEST_REQUIRE(pair.nodes[0]
                         ->create_group(GroupNumber{8}, {NodeId{0}, NodeId{1}}, NodeId{0}, {}, callbacks)
                         .has_value());
  pair.nodes[0]->disconnect(NodeId{1});  // In this call, failed() is called.
  BOOST_TEST(refuses(in_upcall));
  BOOST_TEST(pair.nodes[0]->poll({}).has_value());
}

BOOST_AUTO_TEST_CASE(more_commands_than_the_queue_holds_all_run) {
  Pair pair("udp");
  constexpr int kMessages = 10'000;  // more tasks than the engine's queue can hold (4096)
  const std::byte byte{7};
  std::thread([&] {
    for (int i = 0; i < kMessages; ++i)
      BOOST_TEST_REQUIRE(pair.nodes[0]->send(kGroup, {&byte, 1}).has_value());
  }).join();
  pair.run_until_stable(kWays[0], kMessages);
  BOOST_TEST(pair.heard[1].delivered.size() == std::size_t{kMessages});
}

BOOST_AUTO_TEST_CASE(no_turn_executes_more_commands_than_the_others_on_the_thread_can_wait_for) {
  Pair pair("shm", false);
  constexpr std::uint64_t kMessages = 5 * group::NodeGroup::kCommandsPerTurn;
  const std::byte byte{7};
  std::thread([&] {
    for (std::uint64_t i = 0; i < kMessages; ++i)
      BOOST_TEST_REQUIRE(pair.nodes[0]->send(kGroup, {&byte, 1}).has_value());
  }).join();
  std::uint64_t most = 0;
  while (pair.heard[0].stable < kMessages) {
    const std::uint64_t before = pair.heard[0].reusable;
    pair.nodes[0]->poll({});
    most = std::max(most, pair.heard[0].reusable - before);
    pair.nodes[1]->poll({});
  }
  BOOST_TEST(most > 0u);
  BOOST_TEST(most <= group::NodeGroup::kCommandsPerTurn);
  BOOST_TEST(pair.heard[1].delivered.size() == kMessages);
}

BOOST_AUTO_TEST_CASE(a_node_with_a_thread_of_its_own_has_no_descriptor) {
  const auto node = Node::create({.address = Address::ipv4(127, 0, 3, 33, 0), .fabric = "udp"}).value();
  BOOST_TEST((node->descriptor().error().code == Errc::invalid_argument));
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::testing
