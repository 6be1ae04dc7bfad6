// Tests the packets that the requester sends to a foreign endpoint, and how the requester handles the answers
// (IBTA vol. 1, 9.7 and 9.9).
#include <boost/test/unit_test.hpp>

#include "tests/dataplane/roce/script.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(requester_test)
namespace {

void post(Script& s, SendOpcode opcode, std::size_t bytes, std::uint64_t work_id = 0) {
  BOOST_REQUIRE(s.post(opcode, bytes, work_id).has_value());
}

/// Lets `span` pass, and calls the connection at each deadline, as an engine does. Returns all packets that
/// the connection has sent.
Lines pass(Script& s, Duration span) {
  Lines all;
  const Time end = s.now() + span;
  while (s.connection().next_deadline() <= end) {
    s.wait(std::max(s.connection().next_deadline() - s.now(), Duration{}));
    for (auto& line : s.out()) all.push_back(line);
  }
  s.wait(end - s.now());
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(messages_are_cut_at_the_path_mtu) {
  Script s;
  post(s, SendOpcode::send, 0);
  post(s, SendOpcode::send, kMtu);
  post(s, SendOpcode::send_immediate, kMtu + 1);
  post(s, SendOpcode::write, 2 * kMtu + 3);
  post(s, SendOpcode::write_immediate, 7);
  post(s, SendOpcode::write_immediate, 2 * kMtu);
  CHECK_LINES(s.out(), "send_only 0:0 ask", "send_only 1:256 ask", "send_first 2:256",
              "send_last_immediate 3:1 ask", "write_first 4:256 of 515", "write_middle 5:256",
              "write_last 6:3 ask", "write_only_immediate 7:7 of 7 ask", "write_first 8:256 of 512",
              "write_last_immediate 9:256 ask");
}

BOOST_AUTO_TEST_CASE(the_last_packet_of_a_send_names_the_key_it_invalidates) {
  for (bool selective : {false, true}) {
    Script s({.selective_repeat = selective});
    post(s, SendOpcode::send_invalidate, 3, 1);
    post(s, SendOpcode::send_invalidate, kMtu + 1, 2);
    CHECK_LINES(s.out(), "send_only_invalidate 0:3 key 43981", "send_first 1:256",
                "send_last_invalidate 2:1 key 43981");
  }
}

BOOST_AUTO_TEST_CASE(reads_and_atomics_are_not_posted_as_sends) {
  Script s;
  for (SendOpcode opcode : {SendOpcode::read, SendOpcode::compare_swap, SendOpcode::fetch_add})
    BOOST_TEST((s.post(opcode, 8).error().code == Errc::invalid_argument));
  BOOST_TEST((s.atomic(SendOpcode::write, 1, 1).error().code == Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(acknowledgements_are_cumulative_and_complete_in_order) {
  Script s;
  for (std::uint64_t id : {1, 2, 3}) post(s, SendOpcode::send, kMtu + 1, id);
  s.out();
  s.ack(2);
  CHECK_LINES(s.completions(), "send 1 257");
  s.ack(2);
  CHECK_LINES(s.completions());
  s.ack(5);
  CHECK_LINES(s.completions(), "send 2 257", "send 3 257");
  s.ack(4);  // This answer is late.
  BOOST_TEST((s.connection().next_deadline() == Time::never()));
}

BOOST_AUTO_TEST_CASE(an_answer_to_what_was_never_sent_is_a_ghost) {
  Script s;
  post(s, SendOpcode::send, 1);
  s.out();
  for (int psn : {1, 1000}) s.ack(psn);
  s.ack(1, kRemoteAccess);
  CHECK_LINES(s.completions());
  BOOST_TEST(s.connection().counters().ghosts == 3);
  BOOST_TEST(!s.connection().failed());
}

BOOST_AUTO_TEST_CASE(a_sequence_nak_acknowledges_what_is_before_and_all_the_rest_goes_again) {
  Script s;
  for (std::uint64_t id : {1, 2, 3}) post(s, SendOpcode::send, 1, id);
  s.out();
  s.ack(1, kSequenceError);
  CHECK_LINES(s.completions(), "send 1 1");
  CHECK_LINES(s.out(), "send_only 1:1 ask", "send_only 2:1 ask");
  BOOST_TEST(s.connection().counters().retransmitted == 2);
}

BOOST_AUTO_TEST_CASE(after_an_rnr_nak_nothing_leaves_until_its_timer) {
  Script s;
  for (std::uint64_t id : {1, 2, 3}) post(s, SendOpcode::send, 1, id);
  s.out();
  s.ack(1, rnr_syndrome(14));  // This code means 1.28 ms.
  CHECK_LINES(s.completions(), "send 1 1");
  // This is the same NAK, which the network has duplicated.
  s.ack(1, rnr_syndrome(14));
  BOOST_TEST((s.connection().next_deadline() == s.now() + microseconds(1280)));
  s.wait(microseconds(1279));
  CHECK_LINES(s.out());
  s.wait(microseconds(1));
  CHECK_LINES(s.out(), "send_only 1:1 ask", "send_only 2:1 ask");
}

BOOST_AUTO_TEST_CASE(rnr_retries_are_limited_unless_seven) {
  for (int limit : {0, 2, 7}) {
    Script s({.rnr_retry_limit = static_cast<std::uint8_t>(limit)});
    post(s, SendOpcode::send, 1, 1);
    post(s, SendOpcode::send, 1, 2);
    s.out();
    int refusals = 0;
    for (; refusals < 20 && !s.connection().failed(); ++refusals) {
      s.ack(0, rnr_syndrome(1));
      s.wait(microseconds(10));
      s.out();
    }
    BOOST_TEST(refusals == (limit == 7 ? 20 : limit + 1));
    BOOST_TEST(s.connection().failed() == (limit != 7));
    if (limit != 7) {
      BOOST_TEST((s.connection().cause() == FailureCause::rnr_retry_exceeded));
      CHECK_LINES(s.completions(), "send 1 failed", "send 2 flushed");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_never_posts_a_receive_is_given_up_in_time_however_many_retries_are_left) {
  for (const Duration patience : {milliseconds(100), Duration{}}) {
    Script s({.rnr_patience = patience});
    post(s, SendOpcode::send, 1, 1);
    s.out();
    const Time start = s.now();
    while (!s.connection().failed() && s.now() - start < seconds(60)) {
      s.ack(0, rnr_syndrome(31));  // This code means 491.52 ms.
      s.wait(rnr_delay(31));
      s.out();
    }
    BOOST_TEST(s.connection().failed() == (patience.ns != 0));
    if (patience.ns == 0) continue;
    BOOST_TEST((s.connection().cause() == FailureCause::rnr_retry_exceeded));
    BOOST_TEST((s.now() - start == rnr_delay(31) * 2));
    CHECK_LINES(s.completions(), "send 1 failed");
  }
}

BOOST_AUTO_TEST_CASE(a_receive_posted_now_and_then_is_patience_enough) {
  Script s({.rnr_patience = milliseconds(100)});
  for (int psn = 0; psn < 10; ++psn) {
    post(s, SendOpcode::send, 1);
    s.out();
    for (int refusal = 0; refusal < 2; ++refusal) {
      s.ack(psn, rnr_syndrome(24));  // This code means 40.96 ms.
      s.wait(rnr_delay(24));
      BOOST_TEST(s.out().size() == 1);
    }
    s.ack(psn);
  }
  BOOST_TEST(!s.connection().failed());
}

BOOST_AUTO_TEST_CASE(a_refused_request_fails_and_names_its_cause) {
  const std::array<std::pair<std::uint8_t, FailureCause>, 3> naks{
      {{kInvalidRequest, FailureCause::remote_invalid_request},
       {kRemoteAccess, FailureCause::remote_access},
       {kRemoteOperational, FailureCause::remote_operational}}};
  for (const auto& [syndrome, cause] : naks) {
    Script s;
    for (std::uint64_t id : {1, 2, 3}) post(s, SendOpcode::write, kMtu + 1, id);
    s.receive(1, 4);
    s.out();
    s.ack(3, syndrome);
    BOOST_TEST((s.connection().cause() == cause));
    CHECK_LINES(s.completions(), "write 1 257", "write 2 failed", "write 3 flushed", "receive 4 flushed");
    BOOST_TEST((s.post(SendOpcode::send, 1).error().code == Errc::peer_failed));
    CHECK_LINES(s.out());
  }
}

BOOST_AUTO_TEST_CASE(a_lost_last_packet_is_sent_again_by_the_timer) {
  Script s;
  post(s, SendOpcode::send, 1, 1);
  post(s, SendOpcode::send, 1, 2);
  s.out();
  s.wait(microseconds(50));
  s.ack(0);
  // The measured round trip is short, so the timeout is the minimum.
  BOOST_TEST((s.connection().next_deadline() == s.now() + milliseconds(4)));
  s.wait(milliseconds(4));
  CHECK_LINES(s.out(), "send_only 1:1 ask");
  s.ack(1);
  CHECK_LINES(s.completions(), "send 1 1", "send 2 1");
}

BOOST_AUTO_TEST_CASE(a_doubled_timeout_stays_until_a_round_trip_is_measured_anew) {
  Script s;
  post(s, SendOpcode::send, 1);
  s.out();
  s.wait(microseconds(50));
  s.ack(0);
  post(s, SendOpcode::send, 1);
  s.out();
  s.wait(milliseconds(4));
  CHECK_LINES(s.out(), "send_only 1:1 ask");
  s.wait(microseconds(50));
  // The requester cannot know which of the two transmissions this answers.
  s.ack(1);
  post(s, SendOpcode::send, 1);
  s.out();
  BOOST_TEST((s.connection().next_deadline() == s.now() + milliseconds(8)));
  s.wait(microseconds(50));
  s.ack(2);
  post(s, SendOpcode::send, 1);
  s.out();
  BOOST_TEST((s.connection().next_deadline() == s.now() + milliseconds(4)));
}

BOOST_AUTO_TEST_CASE(a_dead_peer_is_given_up_after_retry_limit_and_one_timeouts) {
  for (bool selective : {false, true}) {
    Script s({.selective_repeat = selective});
    post(s, SendOpcode::write, 3 * kMtu, 1);
    post(s, SendOpcode::write, 1, 2);
    s.out();
    const Time start = s.now();
    BOOST_TEST(pass(s, milliseconds(535)).size() > 5);
    BOOST_TEST(!s.connection().failed());
    pass(s, milliseconds(2));
    BOOST_TEST((s.connection().cause() == FailureCause::retry_exceeded));
    BOOST_TEST((s.now() - start == milliseconds(537)));  // 8 x 67 ms have passed.
    BOOST_TEST(s.connection().counters().timeouts >= 4);
    CHECK_LINES(s.completions(), "write 1 failed", "write 2 flushed");
  }
}

BOOST_AUTO_TEST_CASE(the_configured_timeout_rules_and_nought_means_never) {
  Script patient({.ack_timeout = Duration{}});
  post(patient, SendOpcode::send, 1);
  patient.out();
  BOOST_TEST((patient.connection().next_deadline() == Time::never()));
  Script hasty({.ack_timeout = milliseconds(3), .retry_limit = 1});
  post(hasty, SendOpcode::send, 1);
  hasty.out();
  CHECK_LINES(pass(hasty, milliseconds(5)), "send_only 0:1 ask");
  pass(hasty, milliseconds(1));
  BOOST_TEST(hasty.connection().failed());
}

BOOST_AUTO_TEST_CASE(a_host_that_was_frozen_for_days_asks_four_times_before_it_gives_up) {
  Script s({.selective_repeat = true, .retry_limit = 19});
  post(s, SendOpcode::send, 1);
  s.out();
  s.wait(seconds(3 * 86'400));
  // This measures a round trip of three days. After sixteen doublings, it would not fit into a Duration.
  s.ack(0);
  post(s, SendOpcode::send, 1);
  s.out();
  constexpr Duration kQuarter = milliseconds(67) * 20 / 4;
  for (int i = 0; i < 3; ++i) {
    BOOST_REQUIRE((s.connection().next_deadline() == s.now() + kQuarter));
    s.wait(kQuarter);
    CHECK_LINES(s.out(), "send_only 1:1 ask");
  }
  s.wait(kQuarter);
  s.out();
  BOOST_TEST(s.connection().failed());
}

BOOST_AUTO_TEST_CASE(our_own_pause_is_not_the_peer_s_silence) {
  Script s;
  post(s, SendOpcode::send, 1);
  s.out();
  for (int i = 0; i < 4; ++i) {
    s.wait(seconds(5));
    s.out();
  }
  BOOST_TEST(!s.connection().failed());
  s.ack(0);
  CHECK_LINES(s.completions(), "send 0 1");
}

BOOST_AUTO_TEST_CASE(the_window_holds_and_its_last_packet_asks) {
  for (bool selective : {false, true}) {
    for (std::uint32_t window : {2048U, 40'000U, 1U << 20}) {
      Script s({.selective_repeat = selective, .window_bytes = window});
      post(s, SendOpcode::write, 1 << 20);
      const Lines lines = s.out();
      // A packet of 256 bytes counts as kMinimumCharge bytes.
      BOOST_TEST(lines.size() == std::min<std::size_t>(window / 512, selective ? 1024 : 128));
      BOOST_TEST(lines.back().ends_with("ask"));
      std::size_t without = 0;
      for (const auto& line : lines) {
        without = line.ends_with("ask") ? 0 : without + 1;
        BOOST_TEST(without < 64);
      }
      CHECK_LINES(s.out());
    }
  }
}

BOOST_AUTO_TEST_CASE(an_opened_window_is_filled_by_trains) {
  Script s({.path_mtu = 4096, .selective_repeat = true, .window_bytes = 256 << 10});
  post(s, SendOpcode::write, 1 << 20);
  BOOST_TEST(s.out().size() == 64);
  s.x_ack(14, 14);
  BOOST_TEST(s.out().empty());
  s.x_ack(15, 15);
  BOOST_TEST(s.out().size() == 16);
}

BOOST_AUTO_TEST_CASE(a_full_send_queue_would_block_until_a_completion_is_polled) {
  Script s({.send_depth = 2});
  post(s, SendOpcode::send, 1, 1);
  post(s, SendOpcode::send, 1, 2);
  BOOST_TEST((s.post(SendOpcode::send, 1).error().code == Errc::would_block));
  s.out();
  s.ack(0);
  BOOST_TEST((s.post(SendOpcode::send, 1).error().code == Errc::would_block));
  CHECK_LINES(s.completions(), "send 1 1");
  post(s, SendOpcode::send, 1, 3);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing
