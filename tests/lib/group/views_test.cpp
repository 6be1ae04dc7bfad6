// Large messages that receivers on the root's host look at where they lie: over shared memory, in processes'
// stead fabrics of this one. Waiting is for a condition, up to a limit that only a failing test reaches.
#define BOOST_TEST_MODULE group_views
#include <sys/mman.h>

#include <boost/test/unit_test.hpp>

#include "controlplane/auth/random.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/shm/shm_fabric.hpp"
#include "tests/lib/group/group_end.hpp"
#include "tests/lib/group/nodes.hpp"

using namespace rdmc;
using namespace rdmc::group;
using rdmc::testing::Heard, rdmc::testing::kGroup;

namespace {

constexpr std::uint64_t kBytes = 4 << 20;

class Viewer final : public GroupEnd {
 public:
  void viewed(std::uint64_t message, const fabric::PeerView& view) override {
    views[message] = view;
    delivered_messages.push_back(message);
  }
  std::map<std::uint64_t, fabric::PeerView> views;
};

/// A group of fabrics that share this host; member 0 is the root.
struct Viewers {
  explicit Viewers(std::uint32_t count) : ends(count) {
    GroupConfig config{.name = {.number = 1}, .confirms = true, .read_only = true};
    config.members.clear();
    for (std::uint32_t i = 0; i < count; ++i) config.members.push_back(PeerId{i});
    for (std::uint32_t i = 0; i < count; ++i) {
      fabrics.push_back(
          *fabric::ShmFabric::open({.entropy = [this] { return entropy.next32(); }, .host_id = 7}));
      peers.push_back(std::make_unique<Peers>(*fabrics.back()));
      config.rank = Rank{i};
      BOOST_REQUIRE(ends[i].open(*peers.back(), config));
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      for (const Rank rank : ends[i].group().neighbours())
        BOOST_REQUIRE(peers[value_of(rank)]->connect(PeerId{i}, *peers[i]->offer(PeerId{value_of(rank)})));
    }
    (void)ends[0].group().send_small({});  // when all have it, all are introduced to each other
    BOOST_REQUIRE(run_until([&] { return ends[0].stable_count == 1; }));
  }
  ~Viewers() {
    for (auto& end : ends) end.destroy();
  }
  void turn() {
    for (std::size_t i = 0; i < fabrics.size(); ++i) {
      fabrics[i]->progress(monotonic_now());
      peers[i]->work(monotonic_now());
    }
  }
  template <typename Condition>
  bool run_until(Condition condition) {
    const Time latest = monotonic_now() + seconds(20);
    while (!condition() && monotonic_now() < latest) turn();
    return condition();
  }
  std::uint64_t bytes_copied() const {
    std::uint64_t sum = 0;
    for (const auto& fabric : fabrics) sum += fabric->bytes_copied();
    return sum;
  }
  std::span<std::byte> message(memory::Arena& arena) {
    arena = *fabrics[0]->make_arena(kBytes);
    for (std::size_t at = 0; at < kBytes; ++at) arena.bytes()[at] = static_cast<std::byte>(at * at / 7);
    return arena.bytes();
  }
  bool have_delivered(std::uint64_t count) const {
    return std::all_of(ends.begin() + 1, ends.end(),
                       [&](const Viewer& end) { return end.delivered_messages.size() == count; });
  }

  control::SystemRandom entropy = *control::SystemRandom::open();
  std::vector<std::unique_ptr<fabric::ShmFabric>> fabrics;
  std::vector<std::unique_ptr<Peers>> peers;
  std::vector<Viewer> ends;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_is_read_where_it_lies_and_no_byte_of_it_is_copied_until_all_have_released_it) {
  memory::Arena arena;
  Viewers group(11);  // more than a star: it is told from member to member
  const auto message = group.message(arena);
  const std::uint64_t before = group.bytes_copied();
  BOOST_REQUIRE((group.ends[0].group().try_show(message) == 1));
  BOOST_REQUIRE(group.run_until([&] { return group.have_delivered(2); }));
  BOOST_TEST(group.bytes_copied() - before < 16'384);  // records
  for (std::size_t i = 1; i < group.ends.size(); ++i) {
    const std::span<const std::byte> view = group.ends[i].views.at(1).bytes;
    BOOST_TEST((view.data() != message.data() && std::ranges::equal(view, message)));
    void* const page = const_cast<std::byte*>(view.data());
    BOOST_TEST(mprotect(page, memory::kPageBytes, PROT_READ | PROT_WRITE) != 0);  // nor can it ever
  }
  const auto& completed = group.ends[0].completed_messages;
  for (std::size_t i = 1; i < group.ends.size(); ++i) {
    for (int turn = 0; turn < 100; ++turn) group.turn();
    BOOST_TEST(completed.size() == 1, i - 1 << " have released it");
    group.ends[i].group().release_view(1);
  }
  BOOST_TEST(group.run_until([&] { return completed.size() == 2; }));
}

BOOST_AUTO_TEST_CASE(what_is_shown_keeps_its_place_and_delays_nothing_behind_it) {
  memory::Arena arena;
  std::vector<std::byte> small(100, std::byte{5}), large(100'000, std::byte{6});
  MemoryStore store(large, large.size(), 256 * 1024);
  Viewers group(4);
  const auto message = group.message(arena);
  Group& root = group.ends[0].group();
  std::vector<std::uint64_t> in_order{0};
  for (std::uint64_t next = 1; next < 61; next += 3) {
    BOOST_REQUIRE((root.try_show(message) == next));
    BOOST_REQUIRE((root.send_small(small) == next + 1));
    BOOST_REQUIRE((next + 2 > 60 || root.send_small({}) == next + 2));
    for (std::uint64_t i = 0; i < 3; ++i) in_order.push_back(next + i);
  }
  BOOST_REQUIRE((root.send(store, large.size()) == in_order.size()));
  in_order.push_back(in_order.size());
  BOOST_REQUIRE(group.run_until([&] { return group.have_delivered(in_order.size()); }));
  for (std::size_t i = 1; i < group.ends.size(); ++i) {
    BOOST_TEST(group.ends[i].delivered_messages == in_order);
    for (const auto& [number, view] : group.ends[i].views) group.ends[i].group().release_view(number);
  }
  const auto& completed = group.ends[0].completed_messages;
  BOOST_TEST(group.run_until([&] { return completed.size() == in_order.size(); }));
}

BOOST_AUTO_TEST_CASE(memory_that_nobody_can_map_is_not_shown) {
  Viewers group(3);
  const std::vector<std::byte> own(kBytes);
  BOOST_TEST(!group.ends[0].group().try_show(own).has_value());
  BOOST_TEST(!group.ends[1].group().try_show(own).has_value());
}

BOOST_AUTO_TEST_CASE(an_application_is_shown_what_was_allocated_and_given_the_rest_and_says_when_it_is_done) {
  std::vector<Heard> heard(2);
  std::vector<std::unique_ptr<Node>> nodes;
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto node = Node::create(
        {.id = NodeId{i}, .address = Address::ipv4(127, 0, 3, static_cast<std::uint8_t>(i + 1), 0)});
    BOOST_REQUIRE(node);
    nodes.push_back(std::move(*node));
  }
  const auto first = nodes[0]->offer(NodeId{1}), second = nodes[1]->offer(NodeId{0});
  BOOST_REQUIRE(
      (first && second && nodes[0]->connect(NodeId{1}, *second) && nodes[1]->connect(NodeId{0}, *first)));
  const std::vector<NodeId> members{NodeId{0}, NodeId{1}};
  auto callbacks = heard[1].callbacks();
  BOOST_TEST(
      testing::failed_with(nodes[1]->create_group(kGroup, members, NodeId{0}, {.read_only = true}, callbacks),
                           Errc::invalid_argument));
  std::vector<std::byte> seen;
  callbacks.viewed = [&, delivered = callbacks.delivered](std::uint64_t message,
                                                          std::span<const std::byte> bytes) {
    seen.assign(bytes.begin(), bytes.end());
    delivered(message, {});
  };
  BOOST_REQUIRE(
      nodes[0]->create_group(kGroup, members, NodeId{0}, {.read_only = true}, heard[0].callbacks()));
  BOOST_REQUIRE(nodes[1]->create_group(kGroup, members, NodeId{0}, {.read_only = true}, callbacks));
  const std::vector<std::byte> own(kBytes, std::byte{3});
  BOOST_REQUIRE(nodes[0]->send(kGroup, own));
  BOOST_REQUIRE(heard[0].wait_until([&] { return heard[0].stable == 1; }));
  const auto shared = nodes[0]->allocate(kBytes);
  BOOST_REQUIRE(shared);
  std::ranges::fill(shared->bytes, std::byte{4});
  for (int i = 0; i < 2; ++i) BOOST_REQUIRE(nodes[0]->send(kGroup, shared->bytes));
  BOOST_REQUIRE(heard[1].wait_until([&] { return heard[1].delivered.size() == 3; }));
  BOOST_TEST((heard[1].delivered[0].second == own));
  BOOST_TEST((heard[1].delivered[1].second.empty() && seen.size() == kBytes));
  BOOST_TEST(std::ranges::equal(seen, shared->bytes));
  BOOST_REQUIRE(heard[0].wait_until([&] { return heard[0].stable == 3; }));
  BOOST_TEST(heard[0].reusable == 1u);
  BOOST_REQUIRE(nodes[1]->release(kGroup, 1));
  BOOST_TEST(heard[0].wait_until([&] { return heard[0].reusable == 2; }));
  for (std::uint32_t i = 0; i < 2; ++i)
    BOOST_REQUIRE(nodes[i]->destroy_group(kGroup, heard[i].on_destroyed()));
  for (Heard& one : heard) {
    BOOST_TEST(one.wait_until([&] { return one.destroyed.has_value(); }));
    BOOST_TEST(one.destroyed->has_value());
  }
  nodes.clear();
}
