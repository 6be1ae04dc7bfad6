// Tests how the queue pairs of a NIC end. The engine must not wait for any of them, and their memory must be
// returned to the application at once.
#include <boost/test/unit_test.hpp>

#include <thread>

#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/verbs/verbs_fabric.hpp"
#include "tests/dataplane/fabric/verbs/fake_device.hpp"

using namespace rdmc;
using namespace rdmc::fabric;
using testing::FakeDevice;

namespace {

struct World {
  World() {
    device.flushes_at_once = true;
    fabric = VerbsFabric::open(device.address, [] { return 4U; }).value();
  }
  /// Returns a connected queue pair that can send.
  std::unique_ptr<QueuePair> connected(std::uint32_t largest_receive = 100) {
    auto made = fabric->create_queue_pair({.send_depth = 8, .largest_receive = largest_receive}).value();
    BOOST_REQUIRE(made->connect(made->local_blob()));
    BOOST_REQUIRE(made->post_send({.work_id = 1, .bytes = message}));
    const auto has_taken_it = [&, number = device.youngest()] { return device.names_memory(number); };
    for (const Time end = monotonic_now() + seconds(20); !has_taken_it() && monotonic_now() < end;) {
      fabric->progress(monotonic_now());
      std::this_thread::yield();
    }
    BOOST_REQUIRE(has_taken_it());
    return made;
  }
  /// soon() is a time before all deadlines. late() is a time after all of them.
  static Time soon() { return Time{1}; }
  static Time late() { return monotonic_now() + seconds(1); }

  FakeDevice& device = FakeDevice::instance();
  std::vector<std::byte> message = std::vector<std::byte>(100);
  std::unique_ptr<VerbsFabric> fabric;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_queue_pair_ends_without_waiting_for_the_device_and_drains_while_others_are_served) {
  World world;
  auto one = world.connected();
  const std::uint32_t number = world.device.youngest();
  const std::size_t polls = world.device.polls;
  one.reset();
  BOOST_TEST(world.device.polls - polls <= 2u);
  // The queue pair still exists, because it may have fetched a shared receive, which must not be lost.
  BOOST_TEST(world.device.queue_pairs() == 1u);
  BOOST_TEST(!world.device.names_memory(number));
  world.fabric->progress(World::soon());
  BOOST_TEST(world.device.queue_pairs() == 1u);
  world.device.say_drained(number);
  world.fabric->progress(World::soon());
  BOOST_TEST(world.device.queue_pairs() == 0u);
}

BOOST_AUTO_TEST_CASE(a_device_that_does_not_say_when_a_queue_pair_has_drained_is_given_some_time) {
  World world;
  auto one = world.connected();
  BOOST_TEST((world.fabric->next_deadline() > Time{}));
  one.reset();
  const Time due = world.fabric->next_deadline();
  BOOST_TEST((due < World::late()));
  world.fabric->progress(Time{due.ns - 1});
  BOOST_TEST(world.device.queue_pairs() == 1u);
  world.fabric->progress(due);
  BOOST_TEST(world.device.queue_pairs() == 0u);
  BOOST_TEST((world.fabric->next_deadline() == Time::never()));
}

BOOST_AUTO_TEST_CASE(a_queue_pair_whose_works_the_device_keeps_is_destroyed_with_them) {
  World world;
  auto one = world.connected();
  world.device.flushes_at_once = false;
  const std::size_t polls = world.device.polls;
  one.reset();
  BOOST_TEST(world.device.polls - polls <= 3u);
  // The queue pair is destroyed, so that the device reads no memory of the application.
  BOOST_TEST(world.device.queue_pairs() == 0u);
}

BOOST_AUTO_TEST_CASE(many_that_end_at_once_hold_up_nobody_and_leave_nothing_behind) {
  World world;
  std::vector<std::unique_ptr<QueuePair>> all;
  for (int i = 0; i < 40; ++i) all.push_back(world.connected(i % 4 == 0 ? 0 : 100));
  const std::size_t polls = world.device.polls;
  all.clear();
  BOOST_TEST(world.device.polls - polls <= 3u * 40);
  // Only 30 of the queue pairs use the shared receive queue. The others are destroyed at once.
  BOOST_TEST(world.device.queue_pairs() == 30u);
  world.fabric->progress(World::late());
  BOOST_TEST(world.device.queue_pairs() == 0u);
}

BOOST_AUTO_TEST_CASE(a_fabric_that_ends_takes_along_the_queue_pairs_that_drain) {
  World world;
  world.connected().reset();
  BOOST_TEST(world.device.queue_pairs() == 1u);
  world.fabric.reset();
  BOOST_TEST(world.device.queue_pairs() == 0u);
}
