// Tests how members with slower links than the others are found. The coordinator finds them by the lags that
// the data paths report. Only the coordinator is real. The test writes the messages of its members.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"
#include "tests/controlplane/session/messages_by_hand.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(straggler_test)
namespace {

constexpr std::uint32_t kReceivers = 8;
constexpr std::uint64_t kJob = 1 << 30;
constexpr Duration kTick = milliseconds(20);

/// A running job in its first epoch, with the root and eight other members. The ids are the ranks. Every
/// member gets 100 MB in each second.
class Running {
 public:
  /// `round_trips` contains the round-trip times of members 1, 2 and so on. It may be shorter than the number
  /// of members.
  explicit Running(bool finds = true, const std::vector<Duration>& round_trips = {},
                   bool has_slow_uplinks = false)
      : coordinator_({.session = {},
                      .timing = {},
                      .job_bytes = kJob,
                      .finds_stragglers = finds,
                      .has_slow_uplinks = has_slow_uplinks},
                     members_named(0, kReceivers)) {
    coordinator_.start(now_);
    for (std::uint32_t i = 0; i < round_trips.size(); ++i)
      coordinator_.set_round_trip(MemberId{i + 1}, round_trips[i]);
    for (std::uint32_t id = 0; id <= kReceivers; ++id) {
      coordinator_.on_connected(MemberId{id}, now_);
      say(id, [](wire::Envelope& e) { e.mutable_welcome()->set_version(kProtocolVersion); });
      say(id, [id](wire::Envelope& e) { e.mutable_accept()->set_committed(id == 0); });
    }
    drain();
    BOOST_REQUIRE(candidates_);
    far_ = stragglers_among(*candidates_);
    form(Epoch{1});
  }

  void form(Epoch epoch) {
    ended_ = false;
    candidates_.reset();
    epoch_ = epoch;
    coordinator_.form(epoch, {}, now_);
    for (std::uint32_t id = 0; id <= kReceivers; ++id)
      say(id, [&](wire::Envelope& e) { e.mutable_blobs()->set_epoch(value_of(epoch)); });
    for (std::uint32_t id = 0; id <= kReceivers; ++id)
      say(id, [&](wire::Envelope& e) { e.mutable_ready()->set_epoch(value_of(epoch)); });
    drain();
  }
  void lag(std::uint32_t id, const std::vector<std::uint32_t>& ranks) {
    say(id, [&](wire::Envelope& e) {
      e.mutable_lag()->set_epoch(value_of(epoch_));
      for (const std::uint32_t rank : ranks) e.mutable_lag()->add_ranks(rank);
    });
  }
  void pass(Duration time) {
    for (const Time until = now_ + time; now_ < until && !ended_;) {
      now_ = now_ + kTick;
      bytes_ += static_cast<std::uint64_t>(100e6 * kTick.seconds());
      for (std::uint32_t id = 0; id <= kReceivers; ++id) {
        say(id, [](wire::Envelope& e) { e.mutable_heartbeat(); });
        if (id > 0) {
          say(id, [&](wire::Envelope& e) {
            e.mutable_progress()->set_epoch(value_of(epoch_));
            e.mutable_progress()->set_bytes_done(bytes_);
          });
        }
      }
      coordinator_.on_timer(now_);
      drain();
    }
  }
  /// Returns the stragglers that the coordinator reports to its application after all members have ended the
  /// epoch.
  std::set<std::uint32_t> stragglers() {
    for (std::uint32_t id = 0; id <= kReceivers; ++id)
      say(id, [&](wire::Envelope& e) { e.mutable_ended()->set_epoch(value_of(epoch_)); });
    drain();
    BOOST_REQUIRE(candidates_);
    return stragglers_among(*candidates_);
  }
  /// The stragglers that the coordinator reports to its application before the first epoch.
  const std::set<std::uint32_t>& far() const { return far_; }
  bool ended() const { return ended_; }
  int lost() const { return lost_; }
  int named_as_failed() const { return named_; }

 private:
  static std::set<std::uint32_t> stragglers_among(
      const std::vector<ParametersNeeded::Candidate>& candidates) {
    std::set<std::uint32_t> found;
    for (const auto& candidate : candidates)
      if (candidate.is_straggler) found.insert(value_of(candidate.member));
    return found;
  }
  template <typename Fill>
  void say(std::uint32_t id, Fill fill) {
    test::say(coordinator_, id, now_, fill);
  }
  void drain() {
    while (auto output = coordinator_.poll()) {
      const auto* const finished = std::get_if<MemberFinished>(&*output);
      if (finished != nullptr && finished->status != Status::ok) ++lost_;
      if (auto* needed = std::get_if<ParametersNeeded>(&*output)) candidates_ = std::move(needed->candidates);
      if (const auto* send = std::get_if<Send>(&*output)) {
        const auto envelope = parse_envelope(send->bytes);
        if (envelope->has_end()) {
          ended_ = true;
          named_ += envelope->end().failed_size();
        }
      }
    }
  }

  Time now_{seconds(1000).ns};
  Coordinator coordinator_;
  Epoch epoch_{};
  std::uint64_t bytes_ = 0;
  std::optional<std::vector<ParametersNeeded::Candidate>> candidates_;
  std::set<std::uint32_t> far_;
  bool ended_ = false;
  int lost_ = 0, named_ = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(whoever_holds_up_rings_for_a_while_is_a_straggler_in_the_next_epoch_and_nobody_is_lost) {
  Running job;
  job.lag(3, {5});
  job.pass(milliseconds(200));
  BOOST_TEST(!job.ended());
  job.pass(milliseconds(200));
  BOOST_REQUIRE(job.ended());
  BOOST_TEST((job.stragglers() == std::set<std::uint32_t>{5}));
  BOOST_TEST(job.lost() == 0);
  BOOST_TEST(job.named_as_failed() == 0);
  job.form(Epoch{2});
  // The coordinator already knows that member 5 is a straggler.
  job.lag(3, {5});
  job.pass(seconds(1));
  BOOST_TEST(!job.ended());
}

BOOST_AUTO_TEST_CASE(whoever_is_far_from_the_others_is_a_straggler_from_the_beginning) {
  using Far = std::set<std::uint32_t>;
  const Duration near = microseconds(100), some = milliseconds(5), far = milliseconds(40);
  struct Case {
    std::vector<Duration> round_trips;
    Far far;
  };
  for (const auto& [round_trips, found] : std::initializer_list<Case>{
           {{near, near, near, near, far, near, near, near}, {5}},
           {{near, near, near, near, far, near, far, near}, {5, 7}},
           {{near, near, far, near, far, near, far, near}, {}},     // Three far members are too many.
           {{near, near, near, near, some, near, near, near}, {}},  // 5 ms is not long enough.
           {{some, some, far, some, some, some, some, some}, {3}},
           {{far, far, far, far, far, far, far, far}, {}},
           {{near, far, near}, {2}},
           {{}, {}}}) {
    BOOST_TEST((Running(true, round_trips).far() == found));
    BOOST_TEST(Running(false, round_trips).far().empty());
  }
}

/// On long paths a ring fills while acknowledgements are under way and while windows are still small.
BOOST_AUTO_TEST_CASE(on_long_paths_a_member_is_a_straggler_only_after_some_round_trips) {
  Running job(true, std::vector<Duration>(kReceivers, milliseconds(160)));
  job.lag(3, {5});
  job.pass(milliseconds(1'200));
  BOOST_TEST(!job.ended());
  job.pass(milliseconds(200));
  BOOST_REQUIRE(job.ended());
  BOOST_TEST((job.stragglers() == std::set<std::uint32_t>{5}));
}

BOOST_AUTO_TEST_CASE(a_lag_that_is_over_was_none) {
  Running job;
  for (int i = 0; i < 10; ++i) {
    job.lag(3, {5});
    job.pass(milliseconds(200));
    job.lag(3, {});
    job.pass(milliseconds(300));
  }
  BOOST_TEST(!job.ended());
}

/// Member 5 is slow. So the ring buffer of member 3, which sends to member 5, fills, and member 3 makes no
/// progress. Later the same happens to member 1, which sends to member 3.
BOOST_AUTO_TEST_CASE(who_was_held_up_before_is_held_up_by_the_straggler) {
  Running job;
  job.lag(3, {5});
  job.pass(milliseconds(100));
  job.lag(1, {3});
  job.pass(milliseconds(100));
  // The link of member 5 is slow in both directions, so member 5 reports a lag, too.
  job.lag(5, {6});
  job.pass(seconds(1));
  BOOST_REQUIRE(job.ended());
  BOOST_TEST((job.stragglers() == std::set<std::uint32_t>{5}));
}

/// Member 1 checks for lags shortly before member 3 does. So the report that member 3 delays member 1 arrives
/// first.
BOOST_AUTO_TEST_CASE(who_is_held_up_by_the_straggler_may_say_so_a_moment_later) {
  Running job;
  job.lag(1, {3});
  job.pass(milliseconds(140));
  job.lag(3, {5});
  job.pass(seconds(1));
  BOOST_REQUIRE(job.ended());
  BOOST_TEST((job.stragglers() == std::set<std::uint32_t>{5}));
}

BOOST_AUTO_TEST_CASE(a_lag_that_is_over_for_a_moment_still_excuses_who_is_held_up_by_it) {
  Running job;
  job.lag(3, {5});
  job.pass(milliseconds(100));
  job.lag(1, {3});
  job.pass(milliseconds(40));
  job.lag(3, {});
  job.pass(milliseconds(20));
  job.lag(3, {5});
  job.pass(seconds(1));
  BOOST_REQUIRE(job.ended());
  BOOST_TEST((job.stragglers() == std::set<std::uint32_t>{5}));
}

BOOST_AUTO_TEST_CASE(two_slow_ones_behind_one_member_are_found_in_one_epoch) {
  Running job;
  job.lag(3, {5, 7});
  job.pass(milliseconds(100));
  job.lag(1, {3});
  job.pass(seconds(1));
  BOOST_REQUIRE(job.ended());
  BOOST_TEST((job.stragglers() == std::set<std::uint32_t>{5, 7}));
}

BOOST_AUTO_TEST_CASE(where_many_are_slow_and_at_the_end_and_on_request_nobody_is_a_straggler) {
  {
    Running job;
    for (std::uint32_t id = 1; id <= 3; ++id) job.lag(id, {id + 3});
    job.pass(seconds(1));
    BOOST_TEST(!job.ended());
  }
  {
    Running job;
    // After these 10 s, the job needs only 0.7 s more.
    job.pass(seconds(10));
    job.lag(3, {5});
    job.pass(milliseconds(600));
    BOOST_TEST(!job.ended());
  }
  {
    Running job(false);
    job.lag(3, {5});
    job.pass(seconds(1));
    BOOST_TEST(!job.ended());
  }
  {
    Running job;
    // Member 0 is the source, which cannot be a straggler.
    job.lag(3, {0});
    job.pass(seconds(1));
    BOOST_TEST(!job.ended());
  }
}

BOOST_AUTO_TEST_CASE(behind_slow_uplinks_only_far_members_are_stragglers) {
  const Duration near = microseconds(100), far = milliseconds(40);
  Running job(true, {near, far, near, near, near, near, near, near}, true);
  BOOST_TEST((job.far() == std::set<std::uint32_t>{2}));
  job.lag(3, {5});
  job.pass(seconds(1));
  BOOST_TEST(!job.ended());
}

BOOST_AUTO_TEST_CASE(who_names_itself_or_nobody_there_breaks_the_protocol) {
  for (const std::uint32_t rank : {3U, 9U}) {
    Running job;
    job.lag(3, {rank});
    job.pass(milliseconds(100));
    BOOST_TEST(job.lost() == 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
