#include "dataplane/port/egress_limit.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(egress_limit_test)

using namespace rdmc;
using namespace rdmc::port;

namespace {

constexpr std::uint64_t kTrain = 64 << 10;

/// A host that has more bytes to send than its link carries. It calls look() repeatedly.
struct Host {
  double bytes_per_ns;
  EgressLimit limit{};
  double waiting = 0;
  Time now{};
  double idle_ns = 0;  // The time in which the link was idle.
  std::uint64_t longest = 0;

  void turn(Duration until_next) {
    while (limit.look(static_cast<std::uint64_t>(waiting), now)) add(kTrain);
    longest = std::max(longest, static_cast<std::uint64_t>(waiting));
    wait_for(until_next);
  }
  void add(std::uint64_t bytes) {
    waiting += static_cast<double>(bytes);
    limit.added(bytes);
  }
  void wait_for(Duration until_next) {
    const double leaves = bytes_per_ns * static_cast<double>(until_next.ns);
    idle_ns += std::max(0.0, leaves - waiting) / bytes_per_ns;
    waiting = std::max(0.0, waiting - leaves);
    now = now + until_next;
  }
  /// Checks that each result of egress() differs from the true value by less than a twentieth.
  void check_egress() const {
    const Egress told = limit.egress(now);
    RC_ASSERT(std::abs(static_cast<double>(told.bytes_per_second) / (bytes_per_ns * 1e9) - 1) < 0.05);
    const double wait = std::min(waiting / bytes_per_ns, static_cast<double>(EgressLimit::kMostWait.ns));
    RC_ASSERT(std::abs(static_cast<double>(told.wait.ns) - wait) < 0.05 * wait + 20'000);
  }
};

double bytes_per_ns(double gigabits) {
  return gigabits / 8;
}

void property(const char* what, auto&& body) {
  BOOST_TEST(rc::check(what, body));
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_link_runs_dry_and_no_queue_holds_more_than_it_drains_in_its_time) {
  property("rates from 10 Mb/s to 50 Gb/s, looks 60 to 200 us apart", [] {
    const double gigabits = *rc::gen::inRange(10, 50'000) / 1000.0;
    Host host{.bytes_per_ns = bytes_per_ns(gigabits)};
    for (int i = 0; i < 200; ++i) host.turn(microseconds(*rc::gen::inRange(60, 200)));
    // On a slow link, the queue contains bytes that were added before the rate was known. These bytes take
    // long to leave.
    while (host.waiting > EgressLimit::kLeastBytes && gigabits < 0.5) host.turn(microseconds(100));
    host.idle_ns = 0;
    host.longest = 0;
    const Time learnt = host.now;
    for (int i = 0; i < 500; ++i) host.turn(microseconds(*rc::gen::inRange(60, 200)));
    RC_ASSERT(host.idle_ns <= 0.001 * static_cast<double>((host.now - learnt).ns));
    const double hold = host.bytes_per_ns * static_cast<double>(EgressLimit::kHold.ns);
    RC_ASSERT(static_cast<double>(host.longest) <=
              std::max({1.0 * EgressLimit::kLeastBytes, 1.1 * hold,
                        std::min(2.2 * hold, 1.0 * EgressLimit::kUsualBytes)}) +
                  kTrain);
  });
}

BOOST_AUTO_TEST_CASE(a_host_that_got_no_processor_for_a_while_does_not_take_its_link_for_faster_or_slower) {
  property("pauses of 1 to 20 ms", [] {
    Host host{.bytes_per_ns = bytes_per_ns(10)};
    for (int i = 0; i < 300; ++i) host.turn(microseconds(100));
    const auto before = host.limit.bytes();
    for (int i = 0; i < 20; ++i) host.turn(milliseconds(*rc::gen::inRange(1, 20)));
    RC_ASSERT(host.limit.bytes() == before);
  });
}

BOOST_AUTO_TEST_CASE(a_link_that_became_slow_is_noticed) {
  Host host{.bytes_per_ns = bytes_per_ns(10)};
  for (int i = 0; i < 300; ++i) host.turn(microseconds(100));
  BOOST_TEST(host.limit.bytes() > 400'000);
  host.bytes_per_ns = bytes_per_ns(0.1);
  for (int i = 0; i < 3000; ++i) host.turn(microseconds(100));
  BOOST_TEST(host.limit.bytes() == EgressLimit::kLeastBytes);
}

BOOST_AUTO_TEST_CASE(the_rate_of_the_link_and_the_wait_in_front_of_it_are_told) {
  property("rates from 10 Mb/s to 50 Gb/s, full queues", [] {
    Host host{.bytes_per_ns = bytes_per_ns(*rc::gen::inRange(10, 50'000) / 1000.0)};
    for (int i = 0; i < 300; ++i) host.turn(microseconds(*rc::gen::inRange(60, 200)));
    host.check_egress();
  });
}

BOOST_AUTO_TEST_CASE(a_queue_that_is_never_full_tells_the_rate_of_the_link_too) {
  property("never more than 48 KB, as a small window has it", [] {
    Host host{.bytes_per_ns = bytes_per_ns(*rc::gen::inRange(10, 500) / 1000.0)};
    for (int i = 0; i < 3000; ++i) {
      host.wait_for(microseconds(*rc::gen::inRange(60, 200)));
      if (host.waiting > 32'000) continue;
      RC_ASSERT(host.limit.look(static_cast<std::uint64_t>(host.waiting), host.now));
      host.add(16'000);
    }
    host.check_egress();
  });
}

BOOST_AUTO_TEST_CASE(of_a_queue_that_nobody_saw_drain_nothing_is_told) {
  EgressLimit limit;
  for (int i = 1; i < 100; ++i) {
    BOOST_TEST(limit.look(0, Time{} + microseconds(100 * i)));
    limit.added(10'000);
    BOOST_TEST(limit.egress(Time{} + microseconds(100 * i)).wait.ns == 0);
    BOOST_TEST(limit.egress(Time{} + microseconds(100 * i)).bytes_per_second == 0U);
  }
}

BOOST_AUTO_TEST_CASE(what_left_while_nobody_looked_tells_no_rate) {
  EgressLimit limit;
  const auto is_silent = [&](Time now) {
    return limit.egress(now).wait.ns == 0 && limit.egress(now).bytes_per_second == 0;
  };
  Time now = Time{} + seconds(1000);
  BOOST_TEST(limit.look(0, now));
  // Small messages are added without a call of look().
  limit.added(20'000);
  now = now + seconds(1);
  limit.added(64'000);
  BOOST_TEST(limit.look(60'000, now + microseconds(10)));
  BOOST_TEST(is_silent(now));
  // The kernel counts 10,000 bytes for this datagram of 1,000.
  limit.added(1000);
  now = now + milliseconds(1);
  BOOST_TEST(limit.look(60'999, now));
  BOOST_TEST(is_silent(now));
  BOOST_TEST(limit.look(20'999, now + microseconds(100)));
  BOOST_TEST(limit.egress(now + microseconds(100)).bytes_per_second == 400'000'000U);
}

BOOST_AUTO_TEST_CASE(no_wait_is_told_that_is_longer_than_anybody_could_mean) {
  EgressLimit limit;
  Time now = Time{} + seconds(1);
  BOOST_TEST(limit.look(100'000, now));
  now = now + seconds(1);
  limit.look(99'000, now);
  BOOST_TEST(limit.egress(now).wait.ns == EgressLimit::kMostWait.ns);
}

BOOST_AUTO_TEST_CASE(a_little_is_added_without_a_look) {
  EgressLimit limit;
  BOOST_TEST(limit.admits_unseen());
  limit.added(EgressLimit::kBytesPerLook);
  BOOST_TEST(!limit.admits_unseen());
  BOOST_TEST(limit.look(EgressLimit::kLeastBytes - 1000, Time{1}));
  BOOST_TEST(limit.admits_unseen());
  limit.added(1001);
  BOOST_TEST(!limit.admits_unseen());
}

BOOST_AUTO_TEST_SUITE_END()
