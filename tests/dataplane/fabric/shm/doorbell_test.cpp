// Tests that a sleeper is woken whenever the doorbell is rung. Two threads try this many times.
#include "dataplane/fabric/shm/doorbell.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <thread>

#include "dataplane/base/clock.hpp"

BOOST_AUTO_TEST_SUITE(doorbell_test)

using namespace rdmc;
using namespace rdmc::fabric::shm;

namespace {

/// Returns the same doorbell as a peer maps it.
Doorbell mapped(const Doorbell& doorbell) {
  auto other = Doorbell::attach(Descriptor(::dup(doorbell.descriptor().get())));
  BOOST_REQUIRE(other);
  return std::move(*other);
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_wake_up_is_lost) {
  constexpr std::uint32_t kRounds = 20'000;
  auto one = *Doorbell::make(), other = *Doorbell::make();
  auto to_one = mapped(one), to_other = mapped(other);
  // The two threads wait for each other alternately. Each thread publishes a number and waits for the next
  // number. After a lost wake-up, a thread sleeps for the longest time of a sleep.
  std::atomic<std::uint32_t> ball{0};
  std::uint32_t slept = 0;
  std::atomic<std::uint32_t> whole{0};  // The number of sleeps that no ring ended.
  const auto play = [&](Doorbell& ours, Doorbell& theirs, std::uint32_t first, std::uint32_t& sleeps) {
    for (std::uint32_t turn = first; turn < kRounds; turn += 2) {
      while (ball.load() != turn) {
        ours.announce(Sleep::on_futex);
        if (ball.load() == turn) break;
        ++sleeps;
        const Time now = monotonic_now();
        ours.sleep(Time::never(), now);
        if (monotonic_now() - now >= Doorbell::kLongestSleep) ++whole;
      }
      ours.awake();
      ball.store(turn + 1);
      theirs.ring();
    }
  };
  std::uint32_t other_slept = 0;
  std::thread player([&] { play(other, to_one, 1, other_slept); });
  play(one, to_other, 0, slept);
  player.join();
  BOOST_TEST(slept + other_slept > 0u);
  // A wake-up can be lost 20,000 times. If one in a thousand is lost, `whole` is 20. The scheduler may cause
  // a few such sleeps without a loss.
  BOOST_TEST(whole < 10u);
}

BOOST_AUTO_TEST_CASE(a_sleep_ends_at_its_deadline_and_nobody_rings_who_is_awake) {
  auto doorbell = *Doorbell::make();
  auto peers = mapped(doorbell);
  BOOST_TEST(!peers.is_asleep());
  BOOST_TEST((peers.ring() == Sleep::awake));
  const Time now = monotonic_now();
  doorbell.announce(Sleep::on_futex);
  BOOST_TEST(peers.is_asleep());
  doorbell.sleep(now + milliseconds(2), now);
  BOOST_TEST((monotonic_now() >= now + milliseconds(2)));
  doorbell.announce(Sleep::elsewhere);
  BOOST_TEST((peers.ring() == Sleep::elsewhere));
  BOOST_TEST((peers.ring() == Sleep::awake));  // The first ring is enough.
}

BOOST_AUTO_TEST_SUITE_END()
