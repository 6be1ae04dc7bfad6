#include "dataplane/port/egress_limit.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(egress_limit_test)

using namespace rdmc;
using namespace rdmc::port;

namespace {

constexpr std::uint64_t kTrain = 64 << 10;

/// A host with more to send than its link carries, looking every so often.
struct Host {
  double bytes_per_ns;
  EgressLimit limit{};
  double waiting = 0;
  Time now{};
  double idle_ns = 0;  // of the link
  std::uint64_t longest = 0;

  void turn(Duration until_next) {
    while (limit.look(static_cast<std::uint64_t>(waiting), now)) waiting += kTrain;
    longest = std::max(longest, static_cast<std::uint64_t>(waiting));
    const double leaves = bytes_per_ns * static_cast<double>(until_next.ns);
    idle_ns += std::max(0.0, leaves - waiting) / bytes_per_ns;
    waiting = std::max(0.0, waiting - leaves);
    now = now + until_next;
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
    host.idle_ns = 0;  // what it took to learn
    host.longest = 0;
    const Time learnt = host.now;
    for (int i = 0; i < 500; ++i) host.turn(microseconds(*rc::gen::inRange(60, 200)));
    RC_ASSERT(host.idle_ns <= 0.001 * static_cast<double>((host.now - learnt).ns));
    const double hold = host.bytes_per_ns * static_cast<double>(EgressLimit::kHold.ns);
    RC_ASSERT(static_cast<double>(host.longest) <=
              std::max<double>(EgressLimit::kLeastBytes, 1.1 * hold) + kTrain);
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

BOOST_AUTO_TEST_CASE(less_than_the_least_limit_is_added_without_a_look) {
  EgressLimit limit;
  BOOST_TEST(limit.admits_unseen(EgressLimit::kLeastBytes));
  BOOST_TEST(!limit.admits_unseen(EgressLimit::kLeastBytes + 1));
  BOOST_TEST(limit.look(60'000, Time{1}));
  BOOST_TEST(limit.admits_unseen(EgressLimit::kLeastBytes - 60'000));
  BOOST_TEST(!limit.admits_unseen(EgressLimit::kLeastBytes - 59'999));
}

BOOST_AUTO_TEST_SUITE_END()
