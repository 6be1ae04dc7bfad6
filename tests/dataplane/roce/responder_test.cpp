// Tests the answers of the responder to a foreign endpoint, packet by packet (IBTA vol. 1, 9.7 and 9.9).
#include <boost/test/unit_test.hpp>

#include "tests/dataplane/roce/script.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(responder_test)
namespace {

bool is_ramp(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != static_cast<std::byte>(i % kMtu)) return false;
  return true;
}

/// Checks the NAK that answers `packet`, and the error state after it.
void check_refused(Script& s, const In& packet, const std::string& nak, FailureCause cause) {
  BOOST_TEST((s.in(packet).verdict == Verdict::refused));
  CHECK_LINES(s.out(), fmt::format("{} {}", nak, packet.psn));
  BOOST_TEST((s.connection().cause() == cause));
  BOOST_TEST(!s.connection().post_receive({}));
  BOOST_TEST((s.connection().next_deadline() == Time::never()));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_send_is_gathered_in_its_receive_and_acknowledged_when_asked) {
  Script s;
  const auto receive = s.receive(1000, 7);
  s.in({Opcode::send_first, 0, kMtu});
  s.in({Opcode::send_middle, 1, kMtu});
  CHECK_LINES(s.out());
  s.in({.opcode = Opcode::send_last_immediate, .psn = 2, .bytes = 5, .ask = true, .immediate = 9});
  CHECK_LINES(s.out(), "ack 2 msn 1");
  CHECK_LINES(s.completions(), "receive 7 517 immediate 9");
  BOOST_TEST(is_ramp(receive.first(517)));
}

BOOST_AUTO_TEST_CASE(a_send_with_invalidate_takes_a_key_out_of_use_and_says_which) {
  Script s;
  s.receive(1000, 1);
  s.receive(10, 2);
  s.in({Opcode::send_first, 0, kMtu});
  BOOST_TEST(s.in({Opcode::write_only, -1, 1, false, 0, 1}).destination == nullptr);
  s.in({Opcode::send_last_invalidate, 1, 5, true});
  CHECK_LINES(s.out(), "ack 1 msn 1");
  CHECK_LINES(s.completions(), "receive 1 261 invalidated");
  BOOST_TEST((s.in({Opcode::write_only, 2, 1, false, 0, 1}).verdict == Verdict::refused));
  CHECK_LINES(s.out(), "access 2");
}

BOOST_AUTO_TEST_CASE(only_keys_that_permit_it_are_invalidated) {
  for (bool known : {false, true}) {
    Script s;
    const RemoteKey key{6};
    if (known) s.regions().add(key, 0, s.memory(), RemoteAccess::write | RemoteAccess::read);
    s.receive(1);
    BOOST_TEST(
        (s.in({.opcode = Opcode::send_only_invalidate, .psn = 0, .key = key}).verdict == Verdict::refused));
    CHECK_LINES(s.out(), "access 0");
    BOOST_TEST((s.regions().resolve(key, 0, 1) != nullptr) == known);
  }
}

BOOST_AUTO_TEST_CASE(a_burst_gets_one_acknowledgement) {
  Script s;
  for (int i = 0; i < 5; ++i) {
    s.receive(1);
    s.in({Opcode::send_only, i, 1, true});
  }
  CHECK_LINES(s.out(), "ack 4 msn 5");
  CHECK_LINES(s.out());
}

BOOST_AUTO_TEST_CASE(a_write_lands_at_its_address_and_consumes_a_receive_only_with_immediate) {
  Script s;
  s.receive(0, 3);
  s.in({Opcode::write_first, 0, kMtu, false, 100, 2 * kMtu + 1});
  s.in({Opcode::write_middle, 1, kMtu});
  s.in({Opcode::write_last, 2, 1, true});
  CHECK_LINES(s.out(), "ack 2 msn 1");
  CHECK_LINES(s.completions());
  BOOST_TEST(is_ramp(s.memory().subspan(100, 2 * kMtu + 1)));
  s.in({Opcode::write_only_immediate, 3, 8, true, 0, 8, 5});
  CHECK_LINES(s.out(), "ack 3 msn 2");
  CHECK_LINES(s.completions(), "receive_write 3 8 immediate 5");
}

BOOST_AUTO_TEST_CASE(a_write_of_nothing_names_no_memory) {
  Script s;
  s.receive(0);
  s.in({Opcode::write_only_immediate, 0, 0, true, 0, 0, 6, RemoteKey{0}});
  CHECK_LINES(s.out(), "ack 0 msn 1");
  CHECK_LINES(s.completions(), "receive_write 0 0 immediate 6");
}

BOOST_AUTO_TEST_CASE(a_gap_is_reported_once_until_it_closes) {
  Script s;
  for (int i = 0; i < 5; ++i) s.receive(1, static_cast<std::uint64_t>(i));
  s.in({Opcode::send_only, 0, 1});
  BOOST_TEST((s.in({Opcode::send_only, 2, 1, true}).verdict == Verdict::out_of_order));
  CHECK_LINES(s.out(), "gap 1");
  s.in({Opcode::send_only, 3, 1, true});
  CHECK_LINES(s.out());
  s.in({Opcode::send_only, 1, 1, true});
  CHECK_LINES(s.out(), "ack 1 msn 2");
  s.in({Opcode::send_only, 3, 1, true});
  CHECK_LINES(s.out(), "gap 2");
  CHECK_LINES(s.completions(), "receive 0 1", "receive 1 1");
}

BOOST_AUTO_TEST_CASE(a_gap_that_closes_within_the_burst_is_not_reported) {
  Script s;
  s.receive(1);
  s.receive(1);
  s.in({Opcode::send_only, 1, 1, true});
  s.in({Opcode::send_only, 0, 1, true});
  CHECK_LINES(s.out(), "ack 0 msn 1");
}

BOOST_AUTO_TEST_CASE(a_duplicate_is_acknowledged_again_and_never_executed) {
  Script s;
  s.receive(1, 0);
  s.receive(1, 1);
  s.in({Opcode::send_only, 0, 1, true});
  s.in({Opcode::write_only, 1, 1, true, 0, 1});
  CHECK_LINES(s.out(), "ack 1 msn 2");
  for (const In& again : {In{Opcode::send_only, 0, 1}, In{Opcode::write_only, 1, 1, false, 0, 1}}) {
    const Arrival arrival = s.in(again);
    BOOST_TEST((arrival.verdict == Verdict::duplicate));
    BOOST_TEST(arrival.destination == nullptr);
    CHECK_LINES(s.out(), "ack 1 msn 2");
  }
  CHECK_LINES(s.completions(), "receive 0 1");
}

BOOST_AUTO_TEST_CASE(a_last_acknowledgement_that_got_lost_is_sent_again_when_the_peer_repeats) {
  Script s;
  s.receive(kMtu + 1, 3);
  s.in({Opcode::send_first, 0, kMtu});
  s.in({Opcode::send_last, 1, 1, true});
  CHECK_LINES(s.out(), "ack 1 msn 1");  // This answer gets lost.
  CHECK_LINES(s.completions(), "receive 3 257");
  s.wait(milliseconds(4));
  s.in({Opcode::send_first, 0, kMtu});
  s.in({Opcode::send_last, 1, 1, true});
  CHECK_LINES(s.out(), "ack 1 msn 1");
  CHECK_LINES(s.completions());
}

BOOST_AUTO_TEST_CASE(without_a_receive_the_peer_is_told_to_wait_and_succeeds_later) {
  Script s;
  s.in({Opcode::send_only, 0, 1, true});
  s.in({Opcode::send_only, 1, 1, true});
  CHECK_LINES(s.out(), "rnr 0");
  s.in({Opcode::send_only, 0, 1, true});
  CHECK_LINES(s.out(), "rnr 0");
  s.receive(1);
  s.in({Opcode::send_only, 0, 1, true});
  CHECK_LINES(s.out(), "ack 0 msn 1");
  // A WRITE with immediate needs its receive at its last packet.
  s.in({Opcode::write_first, 1, kMtu, false, 0, kMtu + 1});
  s.in({.opcode = Opcode::write_last_immediate, .psn = 2, .bytes = 1, .ask = true, .immediate = 4});
  CHECK_LINES(s.out(), "rnr 2");
  s.receive(0, 8);
  s.in({.opcode = Opcode::write_last_immediate, .psn = 2, .bytes = 1, .ask = true, .immediate = 4});
  CHECK_LINES(s.out(), "ack 2 msn 2");
  CHECK_LINES(s.completions(), "receive 0 1", "receive_write 8 257 immediate 4");
}

BOOST_AUTO_TEST_CASE(opcodes_out_of_sequence_and_wrong_lengths_are_invalid) {
  const std::vector<In> firsts{
      {Opcode::send_middle, 0, kMtu},
      {Opcode::send_last, 0, 1},
      {Opcode::write_middle, 0, kMtu},
      {Opcode::write_last, 0, 1},
      {Opcode::send_first, 0, kMtu - 4},               // FIRST must have exactly one path MTU.
      {Opcode::send_only, 0, kMtu + 4},                // ONLY must have at most one path MTU.
      {Opcode::write_first, 0, kMtu, false, 0, kMtu},  // FIRST must leave bytes for later packets.
      {Opcode::write_only, 0, 4, false, 0, 8},         // ONLY must have all bytes.
      {Opcode::x_write_last, 0, 4},                    // The peers have not agreed on this opcode of rdmc.
  };
  for (const In& packet : firsts) {
    Script s;
    s.receive(2000);
    check_refused(s, packet, "invalid", FailureCause::local_invalid_request);
    CHECK_LINES(s.completions(), "receive 0 flushed");
  }
  const std::vector<In> seconds_of_send{{Opcode::send_first, 1, kMtu},   {Opcode::send_only, 1, 1},
                                        {Opcode::write_middle, 1, kMtu}, {Opcode::send_middle, 1, kMtu - 1},
                                        {Opcode::send_last, 1, 0},       {Opcode::send_last, 1, kMtu + 1}};
  for (const In& packet : seconds_of_send) {
    Script s;
    s.receive(2000);
    s.in({Opcode::send_first, 0, kMtu});
    check_refused(s, packet, "invalid", FailureCause::local_invalid_request);
  }
  const std::vector<In> seconds_of_write{{Opcode::write_last, 1, 9},  // 10 bytes are left.
                                         {Opcode::write_last, 1, 11},
                                         {Opcode::write_middle, 1, kMtu},  // Only 10 bytes are left.
                                         {Opcode::send_last, 1, 10}};
  for (const In& packet : seconds_of_write) {
    Script s;
    s.in({Opcode::write_first, 0, kMtu, false, 0, kMtu + 10});
    check_refused(s, packet, "invalid", FailureCause::local_invalid_request);
  }
}

BOOST_AUTO_TEST_CASE(memory_that_was_not_granted_is_refused) {
  for (const In& packet : {In{Opcode::write_only, 0, 4, false, 0, 4, 0, RemoteKey{1}},
                           In{Opcode::write_only, 0, 4, false, (1 << 16) - 3, 4},
                           In{Opcode::write_first, 0, kMtu, false, 0, (1 << 16) + 1}}) {
    Script s;
    check_refused(s, packet, "access", FailureCause::local_access);
  }
  Script s;
  s.in({Opcode::write_first, 0, kMtu, false, 0, 2 * kMtu});
  s.regions().revoke(kKey);
  check_refused(s, {Opcode::write_last, 1, kMtu}, "access", FailureCause::local_access);
}

BOOST_AUTO_TEST_CASE(a_send_longer_than_its_receive_fails_that_receive) {
  Script s;
  s.receive(kMtu + 3, 1);
  s.receive(10, 2);
  s.in({Opcode::send_first, 0, kMtu});
  check_refused(s, {Opcode::send_last, 1, 4}, "invalid", FailureCause::local_length);
  CHECK_LINES(s.completions(), "receive 1 failed", "receive 2 flushed");
}

BOOST_AUTO_TEST_CASE(a_refusal_that_got_lost_is_repeated) {
  Script s;
  s.in({Opcode::send_last, 0, 1});
  CHECK_LINES(s.out(), "invalid 0");
  CHECK_LINES(s.out());
  BOOST_TEST((s.in({Opcode::send_last, 0, 1}).verdict == Verdict::ignored));
  CHECK_LINES(s.out(), "invalid 0");
}

BOOST_AUTO_TEST_CASE(closing_flushes_everything_and_silences_the_connection) {
  Script s;
  BOOST_TEST(s.post(SendOpcode::send, 10, 1).has_value());
  BOOST_TEST(s.post(SendOpcode::write, 10, 2).has_value());
  s.receive(1, 3);
  s.connection().close();
  CHECK_LINES(s.completions(), "send 1 flushed", "write 2 flushed", "receive 3 flushed");
  s.in({Opcode::send_only, 0, 1, true});
  CHECK_LINES(s.out());
  BOOST_TEST((s.connection().cause() == FailureCause::closed));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing
