#include "dataplane/engine/idle.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(idle_test)

using namespace rdmc;
using namespace rdmc::engine;

namespace {

constexpr Duration kSpin = microseconds(50);

/// An engine on a fake clock. The engine polls once a microsecond until it is told to block. New work wakes
/// it.
struct World {
  Idle idle{{.spin = kSpin}};
  Time now{};

  /// Makes new work arrive when the time `pause` has passed since the engine ran out of work. Returns for how
  /// long the engine polled without success, until it blocked or the work arrived.
  Duration pause(Duration pause) {
    const Time begin = now, work = now + pause;
    Time blocked = work;
    for (; now < work; now = now + microseconds(1)) {
      if (idle.found_nothing(now)) {
        blocked = now;
        break;
      }
    }
    now = work;
    idle.found_work(now);
    return blocked - begin;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(work_that_comes_within_a_spin_finds_the_engine_awake) {
  rc::check([] {
    World world;
    for (int i = 0; i < 100; ++i) {
      const Duration pause = microseconds(*rc::gen::inRange(1, 50));
      RC_ASSERT(world.pause(pause) == pause);
    }
  });
}

BOOST_AUTO_TEST_CASE(no_pause_is_spun_through_for_longer_than_the_strategy_says) {
  rc::check([] {
    World world;
    for (int i = 0; i < 100; ++i) RC_ASSERT(world.pause(microseconds(*rc::gen::inRange(1, 1000))) <= kSpin);
  });
}

BOOST_AUTO_TEST_CASE(when_work_keeps_coming_later_than_a_spin_the_engine_blocks_at_once) {
  rc::check([] {
    World world;
    for (int i = 0; i < 60; ++i) world.pause(microseconds(*rc::gen::inRange(60, 5000)));
    RC_ASSERT(world.pause(microseconds(66)) == Duration{});
  });
}

BOOST_AUTO_TEST_CASE(it_spins_again_soon_after_pauses_have_become_short) {
  World world;
  for (int i = 0; i < 60; ++i) world.pause(seconds(1));
  int in_vain = 0;
  while (world.pause(microseconds(5)) == Duration{}) BOOST_REQUIRE(++in_vain < 16);
}

BOOST_AUTO_TEST_CASE(one_long_pause_among_short_ones_changes_nothing) {
  World world;
  for (int i = 0; i < 60; ++i) world.pause(microseconds(5));
  world.pause(seconds(10));
  BOOST_TEST((world.pause(microseconds(5)) == microseconds(5)));
}

BOOST_AUTO_TEST_CASE(whose_core_others_want_does_not_look_for_a_while) {
  World world;
  BOOST_TEST((world.pause(microseconds(30)) == microseconds(30)));
  world.idle.offered(CoreOffer::kUntaken);
  BOOST_TEST((world.pause(microseconds(30)) == microseconds(30)));
  world.idle.offered(CoreOffer::kUntaken + nanoseconds(1));
  for (unsigned i = 0; i < Idle::kWithoutLook; ++i) BOOST_TEST((world.pause(microseconds(30)) == Duration{}));
  BOOST_TEST((world.pause(microseconds(30)) == microseconds(30)));
}

BOOST_AUTO_TEST_CASE(a_busy_polling_engine_never_blocks_however_long_its_pauses) {
  Idle idle({.busy_poll = true});
  for (std::int64_t i = 0; i < 100; ++i) {
    BOOST_TEST(!idle.found_nothing(Time{i * 1'000'000}));
    BOOST_TEST(!idle.found_nothing(Time{i * 1'000'000 + 900'000}));
    idle.found_work(Time{i * 1'000'000 + 900'000});
  }
}

BOOST_AUTO_TEST_SUITE_END()
