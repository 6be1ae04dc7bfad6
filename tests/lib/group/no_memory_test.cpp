// Tests groups while the fabric thread of one member runs out of memory. Each of its allocations fails in one
// of the cases. No thread may end, and no call may hang. Every member must get the error with which the group
// has failed. The same nodes then make another group, in which all messages must arrive.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <future>

#include "controlplane/peer/context.hpp"
#include "tests/failing_memory.hpp"
#include "tests/lib/group/nodes.hpp"
#include "tests/sampled.hpp"

using namespace rdmc;
using namespace rdmc::testing;

namespace {

constexpr std::uint32_t kMembers = 3;

template <typename Answer, typename... Arguments>
std::function<Answer(Arguments...)> with_memory(std::function<Answer(Arguments...)> upcall) {
  return [upcall = std::move(upcall)](Arguments... arguments) {
    const MemoryOfTest memory;
    return upcall(std::forward<Arguments>(arguments)...);
  };
}

/// The upcalls of the members of one group. The allocations that record the upcalls never fail.
struct HeardByAll {
  GroupCallbacks callbacks(std::size_t member) {
    GroupCallbacks on = members[member].callbacks();
    on.incoming = with_memory(std::move(on.incoming));
    on.delivered = with_memory(std::move(on.delivered));
    on.reusable = with_memory(std::move(on.reusable));
    on.stable = with_memory(std::move(on.stable));
    on.failed = with_memory(std::move(on.failed));
    return on;
  }
  std::array<Heard, kMembers> members;
};

/// Some nodes with one thread each. They make one group after the other.
struct Groups {
  Groups() {
    for (std::uint8_t i = 0; i < kMembers; ++i) {
      const Address address = Address::ipv4(127, 0, 3, static_cast<std::uint8_t>(i + 1), 0);
      threads.push_back(
          peer::Context::of_process()->fabric_thread({.fabric = "udp", .address = address}).value());
    }
    // There are no other threads than those of the nodes.
    BOOST_TEST_REQUIRE(peer::Context::of_process()->threads() == kMembers);
  }

  HeardByAll& make_group() {
    ++epoch;
    HeardByAll& heard = all_heard.emplace_back();
    const GroupOptions options{.epoch = epoch, .block_bytes = 16 * 1024};
    for (std::size_t i = 0; i < kMembers; ++i)
      BOOST_TEST_REQUIRE(
          nodes[i].create_group(kGroup, nodes.ids, NodeId{0}, options, heard.callbacks(i)).has_value());
    return heard;
  }
  void send_all() {
    for (const auto& message : messages) static_cast<void>(nodes[0].send(kGroup, message));
  }
  void destroy_group(HeardByAll& heard) {
    for (std::size_t i = 0; i < kMembers; ++i)
      BOOST_TEST_REQUIRE(nodes[i].destroy_group(kGroup, heard.members[i].on_destroyed()).has_value());
    for (Heard& member : heard.members)
      BOOST_TEST_REQUIRE(member.wait_until([&] { return member.destroyed.has_value(); }));
  }
  void connect_anew() {
    for (std::size_t i = 0; i < kMembers; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        nodes[i].disconnect(nodes.ids[j]);
        nodes[j].disconnect(nodes.ids[i]);
        const auto from_i = nodes[i].offer(nodes.ids[j]), from_j = nodes[j].offer(nodes.ids[i]);
        BOOST_TEST_REQUIRE((from_i && from_j));
        BOOST_TEST_REQUIRE(
            (nodes[i].connect(nodes.ids[j], *from_j) && nodes[j].connect(nodes.ids[i], *from_i)));
      }
    }
  }

  /// Makes a group in which allocations of the thread of `member` fail. Returns false if the thread has made
  /// so few allocations that none failed.
  bool meets_failures(std::size_t member, long spared, long count) {
    HeardByAll& heard = make_group();
    threads[member]->call([&] { fail_allocations(spared, count); });
    send_all();
    for (Heard& one : heard.members)
      BOOST_TEST_REQUIRE(
          one.wait_until([&] { return one.stable == messages.size() || !one.failures.empty(); }));
    const bool has_failed = threads[member]->call(end_failures) > 0;
    for (std::size_t i = 0; has_failed && i < kMembers; ++i) {
      Heard& one = heard.members[i];
      BOOST_TEST_REQUIRE(one.wait_until([&] { return !one.failures.empty(); }));
      BOOST_TEST_REQUIRE(one.failures.size() == 1U);
      const Errc code = one.failures[0].error.code;
      // The other members learn of the failure either from a record or from the end of the connection.
      BOOST_TEST_REQUIRE((code == Errc::resource_limit || (i != member && code == Errc::peer_failed)),
                         i << ": " << one.failures[0].error.what);
    }
    destroy_group(heard);
    return has_failed;
  }
  void check_that_all_arrives() {
    HeardByAll& heard = make_group();
    send_all();
    for (std::size_t i = 0; i < kMembers; ++i) {
      Heard& one = heard.members[i];
      BOOST_TEST_REQUIRE(one.wait_until([&] { return one.stable == messages.size(); }));
      for (std::size_t m = 0; i > 0 && m < messages.size(); ++m)
        BOOST_TEST_REQUIRE((one.delivered[m].second == messages[m]));
      BOOST_TEST_REQUIRE(one.failures.empty());
    }
    destroy_group(heard);
  }

  const std::vector<std::vector<std::byte>> messages{std::vector<std::byte>(100, std::byte{1}),
                                                     std::vector<std::byte>(150'000, std::byte{2}),
                                                     std::vector<std::byte>(10, std::byte{3})};
  Nodes nodes{kMembers};
  std::vector<std::shared_ptr<peer::FabricThread>> threads;
  std::deque<HeardByAll> all_heard;
  std::uint64_t epoch = 0;
};

}  // namespace

BOOST_DATA_TEST_CASE(a_group_whose_members_thread_lacks_memory_fails_by_name_and_the_next_one_works,
                     boost::unit_test::data::make({0U, 1U, 2U}) * boost::unit_test::data::make({1L, 2L, 7L}),
                     member, count) {
  Groups groups;
  const long step = all_or(1L, 5L);
  long spared = 0;
  for (; groups.meets_failures(member, spared, count); spared += step) {
    BOOST_TEST_CONTEXT("allocation " << spared) {
      groups.connect_anew();
      groups.check_that_all_arrives();
    }
  }
  BOOST_TEST_MESSAGE(spared << " allocations");
  BOOST_TEST(spared > 0);
}

/// When the group has ended, the objects that its callbacks hold must be destroyed.
BOOST_AUTO_TEST_CASE(a_group_that_is_over_goes_although_its_nodes_thread_has_no_memory) {
  std::promise<void> gone;
  Groups groups;
  GroupCallbacks on;
  on.stable = [held = std::shared_ptr<void>(nullptr, [&](void*) { gone.set_value(); })](std::uint64_t) {};
  BOOST_TEST_REQUIRE(
      groups.nodes[0].create_group(kGroup, {NodeId{0}}, NodeId{0}, {.epoch = 1}, std::move(on)).has_value());
  BOOST_TEST_REQUIRE(
      groups.nodes[0].destroy_group(kGroup, [](const Result<void>&) { fail_allocations(0); }).has_value());
  BOOST_TEST((gone.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready));
  groups.threads[0]->call(end_failures);
}
