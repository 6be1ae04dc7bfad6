// Tests a group whose root chooses the plan of each message. In every network, the root must soon choose the
// fastest plan, and all other members must follow. The root must find hosts that several members share. Each
// such host must get each byte only once.
#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "lib/group/ranking.hpp"
#include "tests/lib/group/survivors.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(automatic_test)

using namespace rdmc;
using namespace rdmc::group;
using enum relay::Algorithm;

namespace {

/// The members, the network between them, and the messages.
struct Scene {
  std::uint32_t members = 2;
  std::uint64_t bytes = 0;
  sim::LinkOptions link{};
  std::vector<std::uint32_t> racks{};  // The number of members in each rack.
  sim::LinkOptions uplink{};           // The uplinks that the racks have.
  // The number of members on each host. Empty if each member has its own host.
  std::vector<std::uint32_t> hosts{};

  relay::Racks layout() const {
    const auto& sizes = racks.empty() ? hosts : racks;
    return sizes.empty() ? relay::Racks{} : *relay::Racks::of(sizes);
  }
};

std::size_t index_in(const std::vector<std::uint32_t>& sizes, std::size_t process) {
  std::size_t index = 0, end = sizes[0];
  while (process >= end) end += sizes[++index];
  return index;
}

Place placed(const Scene& scene) {
  return [scene, rack_ids = std::vector<sim::RackId>()](sim::Network& network, std::size_t process) mutable {
    if (!scene.hosts.empty() && index_in(scene.hosts, process) < network.hosts())
      return sim::HostId{static_cast<std::uint32_t>(index_in(scene.hosts, process))};
    sim::HostOptions host{.link = scene.link};
    if (!scene.racks.empty()) {
      const std::size_t rack = index_in(scene.racks, process);
      if (rack == rack_ids.size()) rack_ids.push_back(network.add_rack(scene.uplink));
      host.rack = rack_ids[rack];
    }
    return network.add_host(host);
  };
}

struct Outcome {
  relay::MessagePlan plan;
  Duration took;
};

/// Sends `messages` messages of equal length. Each message is sent when every member has the previous one.
/// Returns the plan and the duration of the last message.
Outcome last_of(const Scene& scene, int messages, std::optional<relay::MessagePlan> fixed) {
  World world(1, scene.members, {}, placed(scene), {.mtu = 9000});
  GroupConfig config{.racks = scene.layout(), .confirms = true, .small_bytes = 1000};
  if (fixed) config.algorithm = fixed->algorithm;
  if (!fixed) config.automatic = relay::AutoConfig{.racks_are_hosts = !scene.hosts.empty()};
  std::vector<std::uint32_t> members;
  for (std::uint32_t i = 0; i < scene.members; ++i) members.push_back(i);
  SharedGroup group(world, {.number = 1}, members, config);
  if (fixed) group.config.block_bytes = fixed->block_bytes;
  group.make_all();
  Outcome last;
  for (int i = 0; i < messages; ++i) {
    const Time begin = world.simulation.now();
    group.send(scene.bytes);
    last.plan = group.ends[0]->group().plan_of(group.sent - 1);
    BOOST_TEST_REQUIRE(world.simulation.run_until([&] { return group.is_complete(); }, begin + seconds(20)));
    last.took = world.simulation.now() - begin;
    const auto is_stable = [&] { return group.ends[0]->stable_count == group.sent; };
    BOOST_TEST_REQUIRE(world.simulation.run_until(is_stable, begin + seconds(20)));
  }
  BOOST_TEST(group.everybody_has_everything());
  return last;
}

/// Checks that the automatic choice becomes good: after some messages, it may be at most 10 % slower than the
/// first message with the best fixed plan. Returns the chosen algorithm. With a fixed plan, only the first
/// message is measured, because the first block of a later message may go into memory that was granted in
/// advance.
relay::Algorithm settled_algorithm(const Scene& scene) {
  Duration best = seconds(100);
  relay::MessagePlan which{};
  const relay::AutoConfig all{.racks_are_hosts = !scene.hosts.empty()};
  for (const relay::Algorithm algorithm : relay::auto_algorithms(all, scene.layout())) {
    for (const std::uint32_t block_bytes : {16U << 10, 64U << 10, 256U << 10}) {
      const Outcome outcome = last_of(scene, 1, relay::MessagePlan{algorithm, block_bytes});
      if (outcome.took < best) best = outcome.took, which = outcome.plan;
    }
  }
  const Outcome chosen = last_of(scene, 24, std::nullopt);
  BOOST_TEST(static_cast<double>(chosen.took.ns) < 1.1 * static_cast<double>(best.ns),
             scene.members << " members, " << scene.bytes << " bytes: automatic takes "
                           << relay::to_string(chosen.plan.algorithm) << " in blocks of "
                           << chosen.plan.block_bytes << ", " << chosen.took.ns << " ns, best is "
                           << relay::to_string(which.algorithm) << " in blocks of " << which.block_bytes
                           << ", " << best.ns << " ns");
  return chosen.plan.algorithm;
}

constexpr std::uint64_t kQueue = 8 << 20;
constexpr sim::LinkOptions kNear{.queue_bytes = kQueue},
    kFar{.delay = milliseconds(2), .queue_bytes = kQueue},
    kSlow{.bits_per_second = 5'000'000'000, .queue_bytes = kQueue};

/// The members, with the interface that applications use. NodeId 0 is the root. `ids` may be in any order.
struct Applications {
  Applications(const Scene& scene, const std::vector<NodeId>& ids)
      : world(7, scene.members, {}, placed(scene), {.mtu = 9000}), members(ids.size()) {
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      SimApplication& process = *world.processes[i];
      const auto hosts = hosts_of(ids, NodeId{i}, process.peers());
      BOOST_TEST_REQUIRE(hosts.has_value());
      const auto ranking = by_rank(ids, NodeId{0}, NodeId{i}, *hosts);
      BOOST_TEST_REQUIRE((ranking && (scene.hosts.empty() || ranking->racks.sizes() == scene.hosts)));
      GroupConfig config{.name = {.number = 1},
                         .members = {},
                         .racks = ranking->racks,
                         .automatic = relay::AutoConfig{.racks_are_hosts = !scene.hosts.empty()},
                         .connected_only = true,
                         .confirms = true};
      for (const NodeId id : ranking->members) config.members.push_back(PeerId{value_of(id)});
      const auto rank = std::ranges::find(ranking->members, NodeId{i}) - ranking->members.begin();
      config.rank = Rank{static_cast<std::uint32_t>(rank)};
      process.group = std::make_unique<NodeGroup>(ranking->members, *hosts, false, members[i].callbacks(),
                                                  process.changed, process.counts);
      BOOST_TEST_REQUIRE(process.group->open(process.peers(), config).has_value());
    }
  }
  void send(std::span<const std::byte> bytes) {
    BOOST_TEST_REQUIRE(world.processes[0]->group->send(bytes).has_value());
    world.processes[0]->wake();
    ++sent;
  }
  /// Returns how long it takes until all members know that all messages are stable.
  Duration settle() {
    const Time begin = world.simulation.now();
    const auto all_know = [&] {
      return std::ranges::all_of(members, [&](const Member& m) { return m.stable == sent; });
    };
    BOOST_TEST_REQUIRE(world.simulation.run_until(all_know, begin + seconds(60)));
    return world.simulation.now() - begin;
  }

  WorldOf<SimApplication> world;
  std::vector<Member> members;
  std::uint64_t sent = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(each_algorithm_is_chosen_where_it_is_quickest) {
  BOOST_CHECK(settled_algorithm({.members = 5, .bytes = 100'000, .link = kFar}) == sequential);
  if (is_sampled()) return;
  const auto of_many = settled_algorithm({.members = 16, .bytes = 2 << 20, .link = kNear});
  BOOST_CHECK(of_many == binomial_pipeline || of_many == two_trees);  // Both algorithms are almost equally
                                                                      // fast.
  // These algorithms are almost equally fast.
  const auto of_few = settled_algorithm({.members = 4, .bytes = 2 << 20, .link = kNear});
  BOOST_CHECK_MESSAGE(of_few == chain || of_few == two_trees || of_few == circulant,
                      relay::to_string(of_few));
  // In this case, a tree and a pipeline are almost equally fast, so the algorithm is not checked.
  settled_algorithm({.members = 8, .bytes = 60'000, .link = kNear});
  const auto of_racks = settled_algorithm(
      {.members = 12, .bytes = 2 << 20, .link = kNear, .racks = {4, 4, 4}, .uplink = kSlow});
  BOOST_CHECK(of_racks == hybrid || of_racks == site_trees);
  // Each of these algorithms sends each block only once to each host.
  const auto of_hosts =
      settled_algorithm({.members = 9, .bytes = 2 << 20, .link = kNear, .hosts = {3, 3, 3}});
  const bool is_once = relay::is_for_hosts(of_hosts) || of_hosts == site_trees || of_hosts == hybrid;
  BOOST_CHECK_MESSAGE(is_once, relay::to_string(of_hosts));
}

BOOST_AUTO_TEST_CASE(hosts_that_members_share_are_found_and_the_network_carries_each_byte_to_each_once) {
  std::vector<NodeId> ids;
  for (const std::uint32_t i : {4, 0, 8, 3, 1, 6, 2, 5, 7}) ids.push_back(NodeId{i});
  Applications group({.members = 9, .link = kNear, .hosts = {3, 3, 3}}, ids);
  std::vector<std::byte> message(2 << 20);
  const auto received = [&] {
    std::vector<std::uint64_t> bytes;
    for (std::uint32_t host = 0; host < 3; ++host)
      bytes.push_back(group.world.network.received_bytes(sim::HostId{host}));
    return bytes;
  };
  std::vector<std::uint64_t> before;
  for (int i = 0; i < all_or(20, 12); ++i) {
    before = received();
    for (std::byte& b : message) b = static_cast<std::byte>(group.world.simulation.random().next());
    group.send(message);
    group.settle();
    for (std::size_t m = 1; m < ids.size(); ++m) BOOST_TEST((group.members[m].copies.back() == message));
  }
  const auto after = received();
  for (const std::size_t host : {1U, 2U}) {
    const auto carried =
        static_cast<double>(after[host] - before[host]) / static_cast<double>(message.size());
    BOOST_TEST((carried > 1.0 && carried < 1.05),
               "host " << host << " got each byte " << carried << " times");
  }
  BOOST_TEST(after[0] - before[0] < message.size() / 10);
}

BOOST_AUTO_TEST_CASE(an_application_that_keeps_a_queue_learns_what_one_that_waits_learns) {
  const Scene scene{.members = 5, .bytes = 100'000, .link = kFar};
  const std::vector<NodeId> ids{NodeId{0}, NodeId{1}, NodeId{2}, NodeId{3}, NodeId{4}};
  const std::vector<std::byte> large(scene.bytes, std::byte{1}), small(100, std::byte{2});
  const auto is_small = [](int i) { return i % 5 == 3; };
  const auto last_of = [&](bool in_a_queue) {
    Applications group(scene, ids);
    for (int i = 0; i < 50; ++i) {
      group.send(is_small(i) ? small : large);
      if (!in_a_queue) group.settle();
    }
    if (in_a_queue) group.settle();
    for (std::size_t m = 1; m < ids.size(); ++m) {
      BOOST_TEST_REQUIRE((group.members[m].copies.size() == 50 && group.members[m].in_order));
      for (int i = 0; i < 50; ++i)
        BOOST_TEST((group.members[m].copies[static_cast<std::size_t>(i)] == (is_small(i) ? small : large)));
    }
    group.send(large);
    return static_cast<double>(group.settle().ns);
  };
  const double alone = last_of(false), in_a_queue = last_of(true);
  BOOST_TEST(in_a_queue < 1.25 * alone);
}

/// The messages that still wait at the root must be sent before the group is closed.
BOOST_AUTO_TEST_CASE(a_group_that_is_destroyed_behind_a_queue_closes_when_all_have_all_of_it) {
  Applications group({.members = 3, .link = kFar}, {NodeId{0}, NodeId{1}, NodeId{2}});
  const std::vector<std::byte> large(100'000);
  for (int i = 0; i < 10; ++i) group.send(large);
  std::size_t closed = 0;
  for (auto& process : group.world.processes) {
    const auto count = [&](const Result<void>& result) { closed += result ? 1 : 0; };
    BOOST_TEST_REQUIRE(process->group->destroy(count).has_value());
    process->wake();
  }
  BOOST_TEST(group.world.simulation.run_until([&] { return closed == 3; }, Time{} + seconds(5)));
  BOOST_TEST((group.members[1].copies.size() == 10 && group.members[2].copies.size() == 10));
}

BOOST_AUTO_TEST_CASE(what_waits_for_an_applications_memory_says_nothing_about_the_network) {
  // Member 1 is a child of the root, and member 11 is farther down the tree.
  for (const std::size_t late : {1, 11}) {
    World world(1, 12, {}, placed({.members = 12, .link = kNear}), {.mtu = 9000});
    std::vector<std::uint32_t> members(12);
    std::iota(members.begin(), members.end(), 0u);
    SharedGroup group(world, {.number = 1}, members,
                      {.automatic = relay::AutoConfig{}, .confirms = true, .small_bytes = 1000});
    group.make_all();
    const auto send = [&](Duration waits) {
      group.ends[late]->accept_at_once = waits == Duration{};
      group.send(1 << 20);
      world.run_for(waits);
      group.ends[late]->accept_waiting();
      world.wake_all();
      const auto is_stable = [&] { return group.ends[0]->stable_count == group.sent; };
      BOOST_TEST_REQUIRE(world.simulation.run_until(is_stable, world.simulation.now() + seconds(20)));
    };
    for (int i = 0; i < 30; ++i) send({});
    const relay::MessagePlan before = group.ends[0]->group().plan_for(1 << 20);
    for (int i = 0; i < 2; ++i) send(milliseconds(100));
    const relay::MessagePlan after = group.ends[0]->group().plan_for(1 << 20);
    BOOST_TEST((after.algorithm == before.algorithm && after.block_bytes == before.block_bytes));
  }
}

BOOST_AUTO_TEST_SUITE_END()
