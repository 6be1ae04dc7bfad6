// Tests the extension of rdmc: X_WRITEs out of order, selective acknowledgements, and which packets are sent
// again.
#include <boost/test/unit_test.hpp>

#include "dataplane/roce/constants.hpp"
#include "tests/dataplane/roce/script.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(selective_repeat_test)
namespace {

const ConnectionConfig kSelective{.selective_repeat = true};

In part(int psn, std::uint64_t at, std::uint32_t rest) {
  return {Opcode::x_write, psn, kMtu, false, at, rest};
}
In last(int psn, std::size_t bytes, std::uint64_t at, bool ask = false) {
  return {Opcode::x_write_last, psn, bytes, ask, at};
}
In last_immediate(int psn, std::size_t bytes, std::uint64_t at, std::uint32_t immediate) {
  return {
      .opcode = Opcode::x_write_last_immediate, .psn = psn, .bytes = bytes, .at = at, .immediate = immediate};
}
void post(Script& s, SendOpcode opcode, std::size_t bytes, std::uint64_t work_id = 0) {
  BOOST_REQUIRE(s.post(opcode, bytes, work_id).has_value());
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_part_of_a_write_carries_its_own_address) {
  Script s(kSelective);
  post(s, SendOpcode::write, 2 * kMtu + 3);
  post(s, SendOpcode::write_immediate, 4);
  post(s, SendOpcode::send, 5);
  post(s, SendOpcode::write_immediate, 0);
  CHECK_LINES(s.out(), "x_write 0:256@0/515", "x_write 1:256@256/259", "x_write_last 2:3@512/3",
              "x_write_last_immediate 3:4@0/4", "send_only 4:5", "x_write_last_immediate 5:0@0/0 ask");
}

BOOST_AUTO_TEST_CASE(packets_are_placed_as_they_come_and_completed_in_order) {
  Script s(kSelective);
  s.receive(0, 1);
  s.receive(0, 2);
  BOOST_TEST(s.in(last_immediate(3, 5, 1000, 22)).destination == s.memory().data() + 1000);
  BOOST_TEST(s.in(last_immediate(2, 7, 512, 11)).destination == s.memory().data() + 512);
  CHECK_LINES(s.out(), "ack -1 msn 0 newest 2 [0011]");
  BOOST_TEST(s.in(part(1, 256, 263)).destination == s.memory().data() + 256);
  CHECK_LINES(s.out(), "ack -1 msn 0 newest 1 [0111]");
  CHECK_LINES(s.completions());
  BOOST_TEST(s.in(part(0, 0, 519)).destination == s.memory().data());
  s.in({Opcode::x_write_last, 4, 1, true});
  CHECK_LINES(s.out(), "ack 4 msn 3 newest 4 []");
  CHECK_LINES(s.completions(), "receive_write 1 519 immediate 11", "receive_write 2 5 immediate 22");
}

In unordered(In packet) {
  packet.begins_unordered = true;
  return packet;
}

BOOST_AUTO_TEST_CASE(an_unordered_write_completes_when_all_of_it_is_here) {
  Script s(kSelective);
  for (std::uint64_t id = 1; id <= 4; ++id) s.receive(0, id);
  // PSN 0 is an unordered WRITE. PSN 1 is a WRITE. PSNs 2 and 3 are an unordered WRITE. PSN 4 is a WRITE. PSN
  // 5 is an unordered WRITE.
  s.in(last_immediate(3, 5, 1256, 33));
  s.in(last_immediate(4, 4, 0, 44));
  CHECK_LINES(s.completions());
  s.in(unordered(part(2, 1000, 261)));
  CHECK_LINES(s.completions(), "receive_write 1 261 immediate 33");
  s.in(unordered(last_immediate(5, 6, 0, 55)));
  CHECK_LINES(s.completions(), "receive_write 2 6 immediate 55");
  CHECK_LINES(s.out(), "ack -1 msn 0 newest 5 [001111]");
  s.in(unordered(last_immediate(0, 7, 0, 11)));
  CHECK_LINES(s.completions(), "receive_write 3 7 immediate 11");
  s.in(last(1, 8, 0));
  CHECK_LINES(s.completions(), "receive_write 4 4 immediate 44");
  CHECK_LINES(s.out(), "ack 5 msn 5 newest 1 []");
}

BOOST_AUTO_TEST_CASE(an_unordered_write_that_meets_no_receive_waits_for_its_turn) {
  Script s(kSelective);
  s.in(unordered(last_immediate(1, 4, 0, 11)));
  s.receive(0, 1);
  CHECK_LINES(s.completions());
  s.in(last(0, 4, 0));
  CHECK_LINES(s.completions(), "receive_write 1 4 immediate 11");
}

BOOST_AUTO_TEST_CASE(an_unordered_write_leaves_the_receive_of_a_send_alone) {
  Script s(kSelective);
  const auto receive = s.receive(300, 1);
  s.receive(0, 2);
  s.in({Opcode::send_first, 0, kMtu});
  s.in(unordered(last_immediate(2, 4, 512, 22)));
  CHECK_LINES(s.completions());
  s.in({Opcode::send_last, 1, 3});
  CHECK_LINES(s.completions(), "receive 1 259", "receive_write 2 4 immediate 22");
  BOOST_TEST(std::to_integer<int>(receive[256]) == 0);
}

BOOST_AUTO_TEST_CASE(only_the_first_packet_of_an_unordered_write_says_so) {
  Script s(kSelective);
  std::array<std::byte, 600> bytes{};
  for (const bool unordered : {true, false})
    BOOST_REQUIRE(s.connection().post_send({.opcode = SendOpcode::write_immediate,
                                            .bytes = bytes,
                                            .remote_address = kBase,
                                            .remote_key = kKey,
                                            .unordered = unordered}));
  CHECK_LINES(s.out(), "x_write 0:256@0/600 unordered", "x_write 1:256@256/344",
              "x_write_last_immediate 2:88@512/88", "x_write 3:256@0/600", "x_write 4:256@256/344",
              "x_write_last_immediate 5:88@512/88 ask");
}

BOOST_AUTO_TEST_CASE(a_received_psn_is_never_placed_again) {
  Script s(kSelective);
  s.receive(0);
  for (const In& packet : {last(0, 4, 0), last(2, 4, 8), last(3, 4, 12)}) {
    BOOST_TEST(s.in(packet).destination != nullptr);
    for (int again = 0; again < 2; ++again) {
      const Arrival arrival = s.in(packet);
      BOOST_TEST(arrival.destination == nullptr);
      BOOST_TEST((arrival.verdict == Verdict::duplicate));
    }
    s.out();
  }
  BOOST_TEST(s.in(last(1, 4, 4)).destination != nullptr);
  for (int psn : {0, 1, 2, 3}) BOOST_TEST(s.in(last(psn, 4, 4)).destination == nullptr);
  CHECK_LINES(s.out(), "ack 3 msn 4 newest 3 []");
  BOOST_TEST(s.connection().counters().duplicates == 10);
}

BOOST_AUTO_TEST_CASE(a_write_that_meets_no_receive_is_refused_for_now_but_keeps_its_bytes) {
  Script s(kSelective);
  BOOST_TEST(s.in(last_immediate(0, 4, 0, 1)).destination != nullptr);
  s.in(last_immediate(1, 4, 4, 2));
  CHECK_LINES(s.out(), "rnr 0", "ack -1 msn 0 newest 1 [01]");
  const Arrival again = s.in(last_immediate(0, 4, 0, 1));
  BOOST_TEST((again.verdict == Verdict::accepted));
  BOOST_TEST(again.destination == nullptr);
  BOOST_TEST(s.out().front() == "rnr 0");
  s.receive(0, 5);  // The bytes have arrived, and need not be sent a third time.
  CHECK_LINES(s.completions(), "receive_write 5 4 immediate 1");
  BOOST_TEST((s.connection().next_deadline() <= s.now()));
  CHECK_LINES(s.out(), "rnr 1", "ack 0 msn 1 newest 0 []");
  s.receive(0, 6);
  CHECK_LINES(s.completions(), "receive_write 6 4 immediate 2");
  CHECK_LINES(s.out(), "ack 1 msn 2 newest 0 []");
}

BOOST_AUTO_TEST_CASE(a_psn_whose_write_waits_for_a_receive_is_taken_by_nothing_else) {
  for (const In& other : {In{.opcode = Opcode::read_request, .psn = 0, .ask = true, .length = 4},
                          In{.opcode = Opcode::fetch_add, .psn = 0, .ask = true}}) {
    Script s(kSelective);
    s.in(last_immediate(0, 4, 0, 1));
    s.out();
    BOOST_TEST((s.in(other).verdict == Verdict::refused));
    CHECK_LINES(s.out(), "invalid 0");
    BOOST_TEST(s.completions().empty());
  }
}

BOOST_AUTO_TEST_CASE(sends_are_taken_in_order_only) {
  Script s(kSelective);
  s.receive(4, 1);
  s.receive(4, 2);
  BOOST_TEST((s.in({Opcode::send_only, 1, 4}).verdict == Verdict::out_of_order));
  s.in(last(2, 4, 0));
  CHECK_LINES(s.out(), "ack -1 msn 0 newest 2 [001]");
  s.in({Opcode::send_only, 0, 4});
  CHECK_LINES(s.out(), "ack 0 msn 1 newest 0 [01]");
  s.in({Opcode::send_only, 1, 3, true});
  CHECK_LINES(s.out(), "ack 2 msn 3 newest 1 []");
  CHECK_LINES(s.completions(), "receive 1 4", "receive 2 3");
}

BOOST_AUTO_TEST_CASE(a_bad_packet_is_refused_when_its_turn_comes) {
  const std::vector<std::pair<In, std::string>> bad{
      {{Opcode::x_write, 1, kMtu - 4, false, 0, kMtu}, "invalid"},
      {last(1, kMtu + 4, 0), "invalid"},
      {{Opcode::write_only, 1, 4, false, 0, 4}, "invalid"},
      {{Opcode::x_write_last, 1, 4, false, 0, 0, 0, RemoteKey{5}}, "access"},
      {last(1, 8, (1 << 16) - 4), "access"}};
  for (const auto& [packet, nak] : bad) {
    Script s(kSelective);
    const Arrival early = s.in(packet);
    BOOST_TEST((early.verdict == Verdict::ignored || early.verdict == Verdict::out_of_order));
    s.in(last(0, 4, 0));
    BOOST_TEST(!s.connection().failed());
    BOOST_TEST((s.in(packet).verdict == Verdict::refused));
    CHECK_LINES(s.out(), fmt::format("{} 1", nak));
    BOOST_TEST(s.connection().failed());
  }
}

BOOST_AUTO_TEST_CASE(no_packet_lands_after_its_key_was_revoked) {
  Script s(kSelective);
  s.in(part(0, 0, 3 * kMtu));
  s.regions().revoke(kKey);
  BOOST_TEST(s.in(last(2, kMtu, 2 * kMtu)).destination == nullptr);
  BOOST_TEST(s.in(part(1, kMtu, 2 * kMtu)).destination == nullptr);
  BOOST_TEST((s.connection().cause() == FailureCause::local_access));
}

BOOST_AUTO_TEST_CASE(a_packet_beyond_the_window_is_ignored) {
  Script s(kSelective);
  BOOST_TEST((s.in(last(1024, 4, 0)).verdict == Verdict::ignored));
  BOOST_TEST((s.in(last(1023, 4, 0)).verdict == Verdict::accepted));
  const Lines answer = s.out();
  BOOST_REQUIRE(answer.size() == 1);
  BOOST_TEST(answer[0] == fmt::format("ack -1 msn 0 newest 1023 [{:0>1024}]", 1));
}

BOOST_AUTO_TEST_CASE(few_packets_that_nobody_asks_about_are_acknowledged_after_a_millisecond) {
  Script s(kSelective);
  s.in(last(0, 4, 0));
  CHECK_LINES(s.out());
  BOOST_TEST((s.connection().next_deadline() == s.now() + milliseconds(1)));
  s.wait(milliseconds(1));
  CHECK_LINES(s.out(), "ack 0 msn 1 newest 0 []");
  for (int psn = 1; psn <= 32; ++psn) s.in(last(psn, 4, 0));
  CHECK_LINES(s.out(), "ack 32 msn 33 newest 32 []");
}

BOOST_AUTO_TEST_CASE(only_what_is_missing_is_sent_again) {
  Script s(kSelective);
  post(s, SendOpcode::write, 10 * kMtu, 1);
  s.out();
  // PSN 2 is missing. PSN 4 was sent only two transmissions later, so PSN 2 may still arrive.
  s.x_ack(1, 4, "011");
  CHECK_LINES(s.sent());
  s.x_ack(1, 5, "0111");
  CHECK_LINES(s.sent(), "x_write 2:256@512/2048 ask");
  // The retransmission is lost, too. An acknowledgement of a packet that was sent three transmissions later
  // shows this.
  post(s, SendOpcode::write, 4 * kMtu, 2);
  BOOST_TEST(s.sent().size() == 4);
  s.x_ack(1, 11, "0111111111");
  CHECK_LINES(s.sent());
  s.x_ack(1, 12, "01111111111");
  CHECK_LINES(s.sent(), "x_write 2:256@512/2048 ask");
  s.x_ack(13, 2);
  CHECK_LINES(s.completions(), "write 1 2560", "write 2 1024");
  BOOST_TEST((s.connection().next_deadline() == Time::never()));
}

namespace {

/// Sends five packets. Only the first packet is answered, after 100 us. The second packet is sent again after
/// the timeout.
void probe_a_silent_tail(Script& s) {
  post(s, SendOpcode::write, 5 * kMtu, 1);
  s.out();
  s.wait(microseconds(100));
  s.x_ack(0, 0);
  s.wait(rdmc::roce::kMinimumTimeout);
  CHECK_LINES(s.out(), "x_write 1:256@256/1024 ask");
}

}  // namespace

BOOST_AUTO_TEST_CASE(silence_is_probed_with_one_packet_whose_answer_tells_the_rest) {
  Script s(kSelective);
  probe_a_silent_tail(s);
  s.wait(microseconds(100));
  s.x_ack(1, 1);
  CHECK_LINES(s.out(), "x_write 2:256@512/768 ask", "x_write 3:256@768/512 ask",
              "x_write_last 4:256@1024/256 ask");
}

BOOST_AUTO_TEST_CASE(a_lost_tail_whose_probe_is_answered_sooner_than_any_round_trip_costs_two_timeouts) {
  Script s(kSelective);
  probe_a_silent_tail(s);
  s.wait(microseconds(60));
  s.x_ack(1, 1);  // This may be the answer to the first transmission.
  CHECK_LINES(s.out());
  s.wait(rdmc::roce::kMinimumProbeTimeout * 2 - microseconds(1));
  post(s, SendOpcode::write, kMtu, 2);
  // PSN 5 is new and has not waited for long. So it is not sent again below.
  CHECK_LINES(s.out(), "x_write_last 5:256@0/256 ask");
  s.wait(microseconds(1));
  CHECK_LINES(s.out(), "x_write 2:256@512/768 ask", "x_write 3:256@768/512 ask",
              "x_write_last 4:256@1024/256 ask");
}

BOOST_AUTO_TEST_CASE(before_a_round_trip_is_known_the_answer_to_a_probe_may_be_the_first_transmissions) {
  Script s(kSelective);
  post(s, SendOpcode::write, 8 * kMtu, 1);
  s.out();
  s.wait(rdmc::roce::kInitialTimeout);
  CHECK_LINES(s.out(), "x_write 0:256@0/2048 ask");
  s.wait(milliseconds(2));  // The round trip is longer than the first timeout.
  s.x_ack(0, 0);
  CHECK_LINES(s.out());
  s.x_ack(3, 3);
  s.x_ack(7, 7);
  CHECK_LINES(s.out());
  CHECK_LINES(s.completions(), "write 1 2048");
}

BOOST_AUTO_TEST_CASE(a_tail_is_given_up_when_only_probes_were_answered_for_longer_than_the_least_timeout) {
  Script s(kSelective);
  post(s, SendOpcode::write, 20 * kMtu, 1);
  s.out();
  const std::array<std::size_t, 3> sent{1, 1, 18};  // The packets are sent after 3, 9 and 21 ms.
  for (int probed = 0; probed < 3; ++probed) {
    s.wait(s.connection().next_deadline() - s.now());
    BOOST_TEST(s.out().size() == sent[probed]);
    s.x_ack(probed, probed);
  }
}

BOOST_AUTO_TEST_CASE(what_is_sent_after_a_probed_packet_was_answered_is_not_given_up_with_it) {
  Script s(kSelective);
  post(s, SendOpcode::write, kMtu, 1);
  s.out();
  s.wait(microseconds(100));
  s.x_ack(0, 0);
  post(s, SendOpcode::write, kMtu, 2);
  s.out();
  s.wait(s.connection().next_deadline() - s.now());
  CHECK_LINES(s.out(), "x_write_last 1:256@0/256 ask");
  s.wait(milliseconds(20));
  s.x_ack(1, 1);
  post(s, SendOpcode::write, 4 * kMtu, 3);
  s.out();
  s.wait(s.connection().next_deadline() - s.now());
  CHECK_LINES(s.out(), "x_write 2:256@0/1024 ask");
}

namespace {

/// Returns the timeout with one packet in flight, after an earlier packet was answered in 100 us.
Duration first_timeout(const Egress& egress, bool read = false) {
  Script s(kSelective);
  s.set_egress(egress);
  post(s, SendOpcode::write, kMtu, 1);
  s.out();
  s.wait(microseconds(100));
  s.x_ack(0, 0);
  if (read)
    s.read(kMtu, 2);
  else
    post(s, SendOpcode::write, kMtu, 2);
  s.out();
  return s.connection().next_deadline() - s.now();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_probe_comes_early_and_later_on_a_slow_link_and_what_follows_is_slow) {
  using namespace rdmc::roce;
  BOOST_TEST(first_timeout({}).ns == kMinimumProbeTimeout.ns);
  BOOST_TEST(first_timeout({.bytes_per_second = 125'000'000}).ns ==
             kMinimumProbeTimeout.ns + std::int64_t{kTargetBytes} * 4);
  BOOST_TEST(first_timeout({.bytes_per_second = 1}).ns == (kMinimumProbeTimeout + kMostLinkTime / 2).ns);
  // The timeout for a READ is longer, because all responses of the READ would be sent again.
  BOOST_TEST(first_timeout({}, true).ns == kMinimumTimeout.ns);
  Script s(kSelective);
  post(s, SendOpcode::write, kMtu, 1);
  s.out();
  s.wait(microseconds(100));
  s.x_ack(0, 0);
  post(s, SendOpcode::write, kMtu, 2);
  s.out();
  s.wait(kMinimumProbeTimeout - nanoseconds(1));
  CHECK_LINES(s.out());
  s.wait(nanoseconds(1));
  CHECK_LINES(s.out(), "x_write_last 1:256@0/256 ask");
  s.wait(kMinimumTimeout - nanoseconds(1));
  CHECK_LINES(s.out());
}

BOOST_AUTO_TEST_CASE(reordering_that_was_taken_for_loss_makes_it_more_patient) {
  Script s(kSelective);
  post(s, SendOpcode::write, 40 * kMtu, 1);
  s.out();
  s.wait(microseconds(100));
  s.x_ack(-1, 3, "0001");
  BOOST_TEST(s.sent().size() == 1);  // PSN 0 is sent again, because PSN 3 has arrived.
  // PSN 0 was only late: the answer arrives sooner than a round trip after the retransmission.
  s.x_ack(0, 0, "001");
  // PSN 1 was sent six transmissions before PSN 7, and PSN 2 was sent five transmissions before PSN 7.
  s.x_ack(0, 7, "0011111");
  CHECK_LINES(s.sent(), "x_write 1:256@256/9984 ask");
}

BOOST_AUTO_TEST_CASE(after_an_rnr_nak_that_packet_alone_goes_again) {
  Script s(kSelective);
  for (std::uint64_t id : {1, 2, 3}) post(s, SendOpcode::write_immediate, 4, id);
  s.out();
  s.x_ack(-1, 2, "011");
  s.ack(0, rnr_syndrome(14));
  CHECK_LINES(s.out());
  s.wait(microseconds(1280));
  CHECK_LINES(s.out(), "x_write_last_immediate 0:4@0/4 ask");
  // PSN 1 had been acknowledged. It is nevertheless refused when the responder needs a receive for it.
  s.ack(1, rnr_syndrome(14));
  CHECK_LINES(s.completions(), "write 1 4");
  s.wait(microseconds(1280));
  CHECK_LINES(s.out(), "x_write_last_immediate 1:4@0/4 ask");
  // Meanwhile a receive was posted, so the requester does not wait for the timer.
  s.ack(2, rnr_syndrome(14));
  post(s, SendOpcode::write, 4, 4);
  CHECK_LINES(s.out());
  s.x_ack(2, 2);
  CHECK_LINES(s.out(), "x_write_last 3:4@0/4 ask");
  CHECK_LINES(s.completions(), "write 2 4", "write 3 4");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing
