#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "controlplane/view/suspicion.hpp"

namespace rdmc::view {
BOOST_AUTO_TEST_SUITE(suspicion_test)
namespace {

/// Makes the peer be heard after each of `gaps`. Returns the last time at which it was heard.
Time hear(Suspicion& suspicion, const std::vector<Duration>& gaps) {
  Time now{};
  for (const Duration gap : gaps) suspicion.heard(now = now + gap);
  return now;
}

BOOST_AUTO_TEST_CASE(whatever_was_learnt_nobody_is_suspected_before_the_floor_and_everybody_at_the_cap) {
  const Timing timing;
  BOOST_TEST(rc::check([&](const std::vector<std::uint16_t>& milli) {
    Suspicion suspicion(timing, Time{});
    std::vector<Duration> gaps;
    for (const auto gap : milli) gaps.push_back(milliseconds(gap));
    const Time last = hear(suspicion, gaps);
    RC_ASSERT(!suspicion.suspects(last + timing.suspect_floor - nanoseconds(1)));
    RC_ASSERT(suspicion.suspects(last + timing.suspect_cap));
  }));
}

BOOST_AUTO_TEST_CASE(the_level_rises_with_silence_and_passes_the_threshold_when_suspicion_begins) {
  Timing timing{.suspect_floor = {}, .suspect_cap = seconds(100)};
  BOOST_TEST(rc::check([&] {
    timing.phi = *rc::gen::inRange(1, 12);
    Suspicion suspicion(timing, Time{});
    std::vector<Duration> gaps(*rc::gen::inRange<std::size_t>(0, 80));
    for (Duration& gap : gaps) gap = milliseconds(*rc::gen::inRange(30, 130));
    const Time last = hear(suspicion, gaps);
    double level = 0;
    for (Time now = last; now < last + seconds(3); now = now + milliseconds(25)) {
      RC_ASSERT(suspicion.level(now) >= level);
      level = suspicion.level(now);
    }
    RC_ASSERT(std::abs(suspicion.level(suspicion.suspect_at()) - timing.phi) < 0.01);
    RC_ASSERT(std::isfinite(suspicion.level(last + seconds(1'000'000))));
  }));
}

BOOST_AUTO_TEST_CASE(an_irregular_peer_is_given_more_time_than_a_regular_one) {
  const Timing timing;
  Suspicion regular(timing, Time{}), irregular(timing, Time{});
  std::vector<Duration> even(64, milliseconds(50)), odd;
  for (int i = 0; i < 64; ++i) odd.push_back(milliseconds(i % 2 == 0 ? 30 : 90));
  const Duration patience = regular.suspect_at() - Time{};
  BOOST_TEST((regular.suspect_at() - hear(regular, even) <= patience));
  const Time last = hear(irregular, odd);
  BOOST_TEST((irregular.suspect_at() - last > patience + milliseconds(50)));
}

BOOST_AUTO_TEST_CASE(words_out_of_turn_do_not_make_a_peer_look_irregular) {
  const Timing timing;
  Suspicion suspicion(timing, Time{});
  const Duration patience = suspicion.suspect_at() - Time{};
  Time last{};
  for (int i = 0; i < 640; ++i) suspicion.heard(last = last + milliseconds(1));
  BOOST_TEST((suspicion.suspect_at() - last == patience));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::view
