// A member that delays others, or the end of the job, must be lost in limited time, and no other member with
// it. A slow source, link or disk must not cause a loss. Only the coordinator is real. The test writes the
// messages of its members.
#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <optional>
#include <vector>

#include "controlplane/session/coordinator.hpp"
#include "controlplane/session/messages.hpp"
#include "controlplane/session/participant.hpp"
#include "tests/controlplane/session/messages_by_hand.hpp"

namespace rdmc::session::test {
BOOST_AUTO_TEST_SUITE(stall_test)
namespace {

using relay::Wait;
using For = Wait::For;

constexpr Duration kTick = milliseconds(100);

/// A running job in its first epoch. If `leader` is the root, the members are the root and three others, and
/// the ids are the ranks. Otherwise member 1 is the coordinator and the source, and the rank of each member
/// is its id minus one.
class Running {
 public:
  explicit Running(std::uint64_t job_bytes = 1 << 30, MemberId leader = kRoot)
      : first_(value_of(leader)),
        coordinator_({.session = {}, .timing = {}, .leader = leader, .job_bytes = job_bytes},
                     members_named(value_of(leader), 3)) {
    coordinator_.start(now_);
    for (std::uint32_t id = first_; id <= 3; ++id) {
      coordinator_.on_connected(MemberId{id}, now_);
      say(id, [](wire::Envelope& e) { e.mutable_welcome()->set_version(kProtocolVersion); });
      say(id, [id](wire::Envelope& e) { e.mutable_accept()->set_committed(id == 0); });
    }
    drain();
    coordinator_.form(Epoch{1}, {}, now_, leader);
    for (std::uint32_t id = first_; id <= 3; ++id)
      say(id, [](wire::Envelope& e) { e.mutable_blobs()->set_epoch(1); });
    for (std::uint32_t id = first_; id <= 3; ++id)
      say(id, [](wire::Envelope& e) { e.mutable_ready()->set_epoch(1); });
    drain();
    BOOST_REQUIRE(started_);
    coordinator_.expect_report({}, now_);
  }

  void waits(std::uint32_t id, const std::optional<Wait>& wait) {
    say(id, [&](wire::Envelope& e) {
      e.mutable_wait()->set_epoch(1);
      store(*e.mutable_wait(), wait);
    });
  }
  void progress(std::uint32_t id, std::uint64_t bytes) {
    say(id, [&](wire::Envelope& e) {
      e.mutable_progress()->set_epoch(1);
      e.mutable_progress()->set_bytes_done(bytes);
    });
  }
  void heartbeat(std::uint32_t id) {
    say(id, [](wire::Envelope& e) { e.mutable_heartbeat(); });
  }
  void complete(std::uint32_t id) {
    say(id, [](wire::Envelope& e) { e.mutable_complete()->set_epoch(1); });
  }
  void deliver(std::uint32_t id) {
    say(id, [](wire::Envelope& e) { e.mutable_delivered()->set_epoch(1); });
  }

  /// Lets `time` pass, in which all members send heartbeats. Calls `each` every tenth of a second, with the
  /// number of the earlier calls.
  void pass(Duration time, const std::function<void(int)>& each = {}) {
    for (const Time until = now_ + time; now_ < until;) {
      for (std::uint32_t id = first_; id <= 3; ++id)
        if (!lost_.contains(id)) heartbeat(id);
      if (each) each(steps_++);
      for (const Time step_ends = now_ + kTick; now_ < step_ends;
           now_ = std::min(step_ends, coordinator_.next_deadline())) {
        coordinator_.on_timer(now_);
        drain();
      }
    }
  }

  const std::map<std::uint32_t, std::string>& lost() const { return lost_; }
  bool ended() const { return ended_; }
  std::uint64_t advance() const { return advance_; }

 private:
  template <typename Fill>
  void say(std::uint32_t id, Fill fill) {
    test::say(coordinator_, id, now_, fill);
  }
  void drain() {
    while (auto output = coordinator_.poll()) {
      if (const auto* finished = std::get_if<MemberFinished>(&*output);
          finished != nullptr && finished->status != Status::ok)
        lost_[value_of(finished->member)] = finished->cause.what;
      if (const auto* send = std::get_if<Send>(&*output)) {
        const auto envelope = parse_envelope(send->bytes);
        if (envelope->has_heartbeat()) advance_ = envelope->heartbeat().advance();
        if (envelope->has_start()) started_ = true;
        if (envelope->has_end()) ended_ = true;
      }
    }
  }

  Time now_{seconds(1000).ns};
  /// The smallest id of all members.
  std::uint32_t first_;
  Coordinator coordinator_;
  std::map<std::uint32_t, std::string> lost_;
  bool started_ = false, ended_ = false;
  int steps_ = 0;
  std::uint64_t advance_ = 0;
};

using Lost = std::map<std::uint32_t, std::string>;

Running led_by_the_first() {
  return Running(1 << 30, MemberId{1});
}

BOOST_AUTO_TEST_CASE(who_takes_no_block_is_lost_alone_however_many_wait_for_each_other) {
  Running job;
  job.waits(0, Wait{1, Rank{2}, For::room});
  job.waits(1, Wait{3, Rank{2}, For::block});
  job.waits(3, Wait{4, Rank{1}, For::block});
  job.pass(seconds(29));
  BOOST_TEST(job.lost().empty());
  job.pass(seconds(2));
  BOOST_TEST((job.lost() == Lost{{2, "took no block for 30 s while others waited"}}));
  BOOST_TEST(job.ended());
}

BOOST_AUTO_TEST_CASE(progress_by_words_alone_is_no_excuse) {
  Running job;
  job.waits(0, Wait{1, Rank{2}, For::room});
  job.pass(seconds(31), [&](int step) { job.progress(2, static_cast<std::uint64_t>(step) * 1'000'000); });
  BOOST_TEST((job.lost() == Lost{{2, "took no block for 30 s while others waited"}}));
}

BOOST_AUTO_TEST_CASE(a_source_that_gives_nothing_for_an_hour_loses_nobody_and_the_group_is_told_to_wait) {
  Running job;
  job.waits(0, Wait{7, Rank{0}, For::store});
  job.waits(1, Wait{7, Rank{0}, For::block});
  job.waits(2, Wait{8, Rank{1}, For::block});
  job.waits(3, Wait{9, Rank{2}, For::block});
  std::uint64_t before = job.advance();
  for (int minute = 0; minute < 60; ++minute) {
    job.pass(seconds(60));
    BOOST_TEST(job.advance() > before);
    before = job.advance();
  }
  // The source continues. Member 2 has waited for member 1 for an hour.
  job.waits(0, std::nullopt);
  job.waits(1, std::nullopt);
  job.pass(seconds(20));
  BOOST_TEST(job.lost().empty());
  job.pass(seconds(12));
  BOOST_TEST((job.lost() == Lost{{1, "passed on no block for 30 s while others waited"}}));
}

BOOST_AUTO_TEST_CASE(a_block_on_a_slow_link_takes_its_time) {
  Running job;
  job.waits(0, Wait{8, Rank{1}, For::link});
  job.waits(1, Wait{8, Rank{0}, For::block});
  job.waits(2, Wait{9, Rank{1}, For::block});
  job.pass(seconds(250));
  BOOST_TEST(job.lost().empty());
}

BOOST_AUTO_TEST_CASE(a_disk_may_be_slow_but_not_for_ever) {
  Running job;
  job.waits(0, Wait{40, Rank{1}, For::room});
  job.waits(1, Wait{8, Rank{1}, For::store});
  job.waits(2, Wait{41, Rank{1}, For::block});
  job.pass(seconds(325));
  BOOST_TEST(job.lost().empty());
  job.pass(seconds(7));
  BOOST_TEST((job.lost() == Lost{{1, "took no block for 30 s while others waited"}}));
}

BOOST_AUTO_TEST_CASE(who_claims_to_wait_for_a_source_that_waits_for_it_is_not_believed) {
  Running job;
  job.waits(0, Wait{5, Rank{3}, For::room});
  job.waits(3, Wait{5, Rank{0}, For::block});
  job.pass(seconds(31));
  BOOST_TEST((job.lost() == Lost{{3, "took no block for 30 s while others waited"}}));

  Running other;
  other.waits(3, Wait{0, Rank{0}, For::block});
  other.pass(seconds(31), [&](int) { other.waits(0, std::nullopt); });
  BOOST_TEST((other.lost() == Lost{{3, "says that it waits for the source, which has given"}}));
}

BOOST_AUTO_TEST_CASE(who_has_delivered_and_passes_nothing_on_ends_the_epoch_but_keeps_its_copy) {
  Running job;
  job.deliver(1);
  job.waits(2, Wait{5, Rank{1}, For::block});
  job.pass(seconds(31));
  BOOST_TEST(job.ended());
  BOOST_TEST(job.lost().empty());
}

BOOST_AUTO_TEST_CASE(
    who_has_all_that_a_survivor_sends_is_not_quiet_but_done_and_who_lacks_some_of_it_is_lost) {
  Running job = led_by_the_first();
  job.complete(2);
  job.pass(seconds(29));
  BOOST_TEST(job.lost().empty());
  job.pass(seconds(2));
  BOOST_TEST((job.lost() == Lost{{3, "got no further for 30 s"}}));
}

BOOST_AUTO_TEST_CASE(
    who_has_all_that_a_survivor_sends_and_passes_nothing_on_ends_the_epoch_and_keeps_what_it_has) {
  Running job = led_by_the_first();
  job.complete(2);
  job.waits(3, Wait{5, Rank{1}, For::block});
  job.pass(seconds(31));
  BOOST_TEST(job.ended());
  BOOST_TEST(job.lost().empty());
}

BOOST_AUTO_TEST_CASE(to_wait_for_a_survivor_that_has_given_speaks_against_who_waits) {
  Running job = led_by_the_first();
  job.waits(3, Wait{0, Rank{0}, For::block});
  job.pass(seconds(31), [&](int step) { job.progress(2, static_cast<std::uint64_t>(step) * 1'000'000); });
  BOOST_TEST((job.lost() == Lost{{3, "says that it waits for the source, which has given"}}));
}

BOOST_AUTO_TEST_CASE(a_survivor_whose_disk_is_slow_loses_nobody_and_one_whose_disk_hangs_is_out) {
  Running job = led_by_the_first();
  for (std::uint64_t block = 7; block < 12; ++block) {
    job.waits(1, Wait{block, Rank{0}, For::store});
    job.waits(2, Wait{block, Rank{0}, For::block});
    job.waits(3, Wait{block + 1, Rank{1}, For::block});
    job.pass(seconds(200));
    BOOST_TEST(job.lost().empty());
  }
  job.pass(seconds(125));
  BOOST_TEST(job.lost().empty());
  job.pass(seconds(10));
  BOOST_TEST((job.lost() == Lost{{1, "read no block for 300 s"}}));
  BOOST_TEST(job.ended());
}

BOOST_AUTO_TEST_CASE(a_survivor_that_still_sends_keeps_everybody) {
  Running job = led_by_the_first();
  job.waits(1, Wait{7, Rank{0}, For::store});
  job.pass(seconds(100));
  BOOST_TEST(job.lost().empty());
}

BOOST_AUTO_TEST_CASE(the_last_disk_may_be_slow_but_not_for_ever) {
  Running job;
  job.complete(1);
  job.complete(3);
  job.waits(2, Wait{8, Rank{2}, For::store});
  job.pass(seconds(295));
  BOOST_TEST(job.lost().empty());
  job.pass(seconds(10));
  BOOST_TEST((job.lost() == Lost{{2, "got no further for 30 s"}}));
}

BOOST_AUTO_TEST_CASE(who_creeps_when_all_has_been_sent_is_lost_and_who_writes_is_not) {
  Running job;
  job.deliver(1);
  job.pass(seconds(31), [&](int step) {
    const auto bytes = static_cast<std::uint64_t>(step);
    job.progress(2, bytes * 2);
    job.progress(3, bytes * 1000);
  });
  BOOST_TEST((job.lost() == Lost{{2, "got no further for 30 s"}}));
}

BOOST_AUTO_TEST_CASE(who_says_that_it_has_more_than_there_is_breaks_the_protocol) {
  Running job(1000);
  job.progress(1, 1000);
  job.pass(milliseconds(100));
  BOOST_TEST(job.lost().empty());
  job.progress(2, ~std::uint64_t{0});
  job.pass(milliseconds(100));
  BOOST_TEST((job.lost() == Lost{{2, "says that it has more bytes than there are"}}));
}

BOOST_AUTO_TEST_CASE(who_floods_its_channel_is_lost_alone_and_at_once) {
  Running job;
  for (int i = 0; i < 5000; ++i) job.heartbeat(2);
  job.pass(milliseconds(100));
  BOOST_TEST((job.lost() == Lost{{2, "floods its control channel"}}));
}

/// Runs a chain that moves one block at a time. Each block takes almost the longest permitted time. Then one
/// member stops.
BOOST_AUTO_TEST_CASE(however_slowly_a_pipeline_moves_only_who_stops_is_lost) {
  const bool held = rc::check("only who stops is lost", [] {
    Running job;
    const auto block_time = *rc::gen::inRange(10, 290);  // In tenths of a second.
    const auto moves_for = *rc::gen::inRange(0, 1000);
    const auto stopper = *rc::gen::inRange<std::uint32_t>(1, 4);
    std::uint64_t step = 0;
    job.pass(milliseconds(moves_for * 100), [&](int tick) {
      if (tick % block_time != 0) return;
      ++step;
      job.waits(0, Wait{step, Rank{1}, For::room});
      for (std::uint32_t id = 1; id <= 3; ++id) job.waits(id, Wait{step + id - 1, Rank{id - 1}, For::block});
    });
    RC_ASSERT(job.lost().empty());
    step += 10;
    for (std::uint32_t id = 0; id < stopper; ++id)
      job.waits(id, Wait{step + stopper - id, Rank{id + 1}, For::room});
    for (std::uint32_t id = stopper + 1; id <= 3; ++id)
      job.waits(id, Wait{step + id - stopper, Rank{id - 1}, For::block});
    job.waits(stopper, std::nullopt);
    job.pass(seconds(31));
    RC_ASSERT(job.lost().size() == 1u);
    RC_ASSERT(job.lost().begin()->first == stopper);
  });
  BOOST_TEST(held);
}

/// A participant that runs in its first epoch. Ten times a second it gets the wait of its data path.
class Waiting {
 public:
  explicit Waiting(Rank rank) {
    participant_.on_connected(now_);
    hear([](wire::Envelope& e) {
      e.mutable_hello()->set_version(kProtocolVersion);
      e.mutable_hello()->set_session(std::string(16, 's'));
      e.mutable_hello()->set_heartbeat_interval_ns(100'000'000);
      e.mutable_hello()->set_suspect_after_ns(600'000'000);
    });
    hear([](wire::Envelope& e) { e.mutable_job(); });
    if (rank == kRootRank)
      participant_.accept_whole(now_);
    else
      participant_.accept({}, now_);
    hear([rank](wire::Envelope& e) {
      e.mutable_form()->set_epoch(1);
      e.mutable_form()->set_rank(value_of(rank));
      e.mutable_form()->add_members()->set_rank(0);
      e.mutable_form()->add_members()->set_rank(1);
    });
    participant_.blobs_made(Epoch{1}, {}, now_);
    hear([](wire::Envelope& e) { e.mutable_peers()->set_epoch(1); });
    participant_.connected(Epoch{1}, now_);
    hear([](wire::Envelope& e) { e.mutable_start()->set_epoch(1); });
  }

  void look(const std::optional<Wait>& wait, Duration time) {
    for (const Time until = now_ + time; now_ < until; now_ = now_ + kTick)
      participant_.waits(Epoch{1}, wait, now_);
    while (auto output = participant_.poll()) {
      const auto* send = std::get_if<Send>(&*output);
      if (send == nullptr) continue;
      const auto envelope = parse_envelope(send->bytes);
      if (envelope->has_wait()) told.push_back(load(envelope->wait()));
    }
  }

  std::vector<std::optional<Wait>> told;

 private:
  template <typename Fill>
  void hear(Fill fill) {
    wire::Envelope envelope;
    fill(envelope);
    participant_.on_message(serialize(envelope), now_);
  }

  Time now_{seconds(5).ns};
  Participant participant_{{.agent = "test", .timing = {}}};
};

BOOST_AUTO_TEST_CASE(a_participant_tells_a_wait_once_it_has_lasted_and_once_when_it_is_over) {
  Waiting receiver(Rank{1});
  const Wait first{3, Rank{0}, For::block}, second{4, Rank{0}, For::link};
  receiver.look(first, milliseconds(900));
  receiver.look(second, milliseconds(900));
  BOOST_TEST(receiver.told.empty());
  receiver.look(second, seconds(5));
  BOOST_REQUIRE(receiver.told.size() == 1u);
  BOOST_TEST((receiver.told[0] == second));
  receiver.look(first, milliseconds(200));
  BOOST_REQUIRE(receiver.told.size() == 2u);
  BOOST_TEST(!receiver.told[1].has_value());
  receiver.look(first, seconds(3));
  receiver.look(std::nullopt, seconds(3));
  BOOST_REQUIRE(receiver.told.size() == 4u);
  BOOST_TEST((receiver.told[2] == first));
  BOOST_TEST(!receiver.told[3].has_value());
}

BOOST_AUTO_TEST_CASE(a_source_tells_every_wait_at_every_call_and_once_when_it_has_none) {
  Waiting source(Rank{0});
  source.look(Wait{3, Rank{1}, For::link}, milliseconds(300));
  source.look(Wait{4, Rank{1}, For::link}, milliseconds(200));
  BOOST_TEST(source.told.size() == 5u);
  source.look(std::nullopt, seconds(3));
  BOOST_REQUIRE(source.told.size() == 6u);
  BOOST_TEST(!source.told.back().has_value());
}

BOOST_AUTO_TEST_CASE(who_waits_for_a_source_that_is_busy_with_others_has_time) {
  Running job;
  std::uint64_t block = 0;
  job.waits(3, Wait{100'000, Rank{0}, For::block});
  job.pass(seconds(200), [&](int step) {
    if (step % 5 == 0) job.waits(0, Wait{block++, Rank{1}, For::link});
  });
  BOOST_TEST(job.lost().empty());
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::session::test
