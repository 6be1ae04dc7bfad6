// Tests READ on both sides: the request, its responses, and the recovery of lost responses (IBTA vol. 1,
// 9.4.4 and 9.7.5.1).
#include <boost/test/unit_test.hpp>

#include "dataplane/roce/constants.hpp"
#include "tests/dataplane/roce/script.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(read_test)
namespace {

In ask(int psn, std::uint64_t at, std::uint32_t length) {
  return {.opcode = Opcode::read_request, .psn = psn, .ask = true, .at = at, .length = length};
}
bool is_ramp(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != static_cast<std::byte>(i % kMtu)) return false;
  return true;
}
void post(Script& s, SendOpcode opcode, std::size_t bytes, std::uint64_t work_id = 0) {
  BOOST_REQUIRE(s.post(opcode, bytes, work_id).has_value());
}

}  // namespace

// Tests of the responder.

BOOST_AUTO_TEST_CASE(a_read_is_answered_from_its_memory_one_psn_for_each_response) {
  Script s;
  s.in(ask(0, 100, 2 * kMtu + 3));
  s.in(ask(3, 0, kMtu));
  s.in(ask(4, 0, 0));
  s.in(ask(5, 8, 2 * kMtu));
  CHECK_LINES(s.out(), "first 0:256 msn 1@100", "middle 1:256@356", "last 2:3 msn 1@612",
              "only 3:256 msn 2@0", "only 4:0 msn 3", "first 5:256 msn 4@8", "last 6:256 msn 4@264");
  CHECK_LINES(s.completions());
  s.in({Opcode::write_only, 7, 1, true, 0, 1});
  CHECK_LINES(s.out(), "ack 7 msn 5");
}

BOOST_AUTO_TEST_CASE(an_acknowledgement_waits_for_the_responses_before_it) {
  for (bool room : {true, false}) {
    Script s;
    s.in(ask(0, 0, 2 * kMtu));
    s.in({Opcode::write_only, 2, 1, true, 0, 1});
    s.in({Opcode::write_only, 3, 1, true, 1, 1});
    if (room) {
      CHECK_LINES(s.out(), "first 0:256 msn 1@0", "last 1:256 msn 1@256", "ack 3 msn 3");
    } else {
      CHECK_LINES(s.sent(1), "first 0:256 msn 1@0");
      CHECK_LINES(s.sent(2), "last 1:256 msn 1@256", "ack 3 msn 3");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_nak_waits_for_the_responses_before_it) {
  Script s;
  s.in(ask(0, 0, 2 * kMtu));
  s.in({Opcode::send_only, 2, 1, true});  // No receive is posted for this SEND.
  CHECK_LINES(s.out(), "first 0:256 msn 1@0", "last 1:256 msn 1@256", "rnr 2");
  s.in(ask(2, 0, 1));
  s.in({Opcode::send_middle, 3, 1});
  CHECK_LINES(s.out(), "only 2:1 msn 2@0", "invalid 3");
}

BOOST_AUTO_TEST_CASE(a_duplicate_read_is_executed_again_from_where_it_asks) {
  Script s;
  s.in(ask(0, 0, 3 * kMtu));
  s.in({Opcode::write_only, 3, 1, false, 2048, 1});
  s.out();
  BOOST_TEST((s.in(ask(1, kMtu, 2 * kMtu)).verdict == Verdict::duplicate));
  s.in({Opcode::write_only, 3, 1, true, 2048, 1});
  CHECK_LINES(s.out(), "first 1:256 msn 1@256", "last 2:256 msn 1@512", "ack 3 msn 2");
  s.in(ask(2, 2 * kMtu, kMtu));
  CHECK_LINES(s.out(), "only 2:256 msn 1@512");
}

BOOST_AUTO_TEST_CASE(a_duplicate_read_that_is_no_part_of_an_earlier_one_is_dropped) {
  Script s;
  s.in(ask(0, 0, 3 * kMtu));
  s.out();
  for (const In& other :
       {ask(1, 0, 2 * kMtu), ask(1, kMtu, kMtu), ask(1, kMtu, 3 * kMtu), ask(-1, 0, kMtu)}) {
    BOOST_TEST((s.in(other).verdict == Verdict::duplicate));
    CHECK_LINES(s.out());
  }
  BOOST_TEST(s.connection().counters().duplicates == 4);
}

BOOST_AUTO_TEST_CASE(a_read_asked_for_twice_before_its_answer_is_answered_once) {
  Script s;
  s.in(ask(0, 0, 2 * kMtu));
  s.in(ask(0, 0, 2 * kMtu));
  CHECK_LINES(s.out(), "first 0:256 msn 1@0", "last 1:256 msn 1@256");
}

BOOST_AUTO_TEST_CASE(no_more_reads_are_taken_at_a_time_than_were_agreed) {
  Script s({.max_dest_rd_atomic = 2});
  s.in(ask(0, 0, 1));
  s.in(ask(1, 0, 1));
  s.out();
  s.in(ask(2, 0, 1));
  s.in(ask(3, 0, 1));
  BOOST_TEST((s.in(ask(4, 0, 1)).verdict == Verdict::refused));
  CHECK_LINES(s.out(), "only 2:1 msn 3@0", "only 3:1 msn 4@0", "invalid 4");
}

BOOST_AUTO_TEST_CASE(a_new_read_is_taken_while_the_answer_that_made_room_for_it_is_being_repeated) {
  Script s({.max_dest_rd_atomic = 2});
  s.in(ask(0, 0, 2 * kMtu));
  s.in(ask(2, 0, 1));
  s.out();
  // This duplicate is late. The peer already has the answer, and sends its next request.
  s.in(ask(0, 0, 2 * kMtu));
  BOOST_TEST((s.in(ask(3, 8, 1)).verdict == Verdict::accepted));
  CHECK_LINES(s.out(), "only 3:1 msn 3@8");
}

BOOST_AUTO_TEST_CASE(memory_that_may_not_be_read_is_refused) {
  const RemoteKey write_only{7};
  std::vector<std::byte> secret(100);
  for (In bad : {In{ask(0, 0, (1 << 16) + 1)}, In{ask(0, 1 << 16, 1)}, In{ask(0, 0, 1)}}) {
    Script s;
    s.regions().add(write_only, kBase, secret, RemoteAccess::write);
    if (bad.length == 1 && bad.at == 0) bad.key = write_only;
    BOOST_TEST((s.in(bad).verdict == Verdict::refused));
    CHECK_LINES(s.out(), "access 0");
    BOOST_TEST((s.connection().cause() == FailureCause::local_access));
  }
}

BOOST_AUTO_TEST_CASE(a_key_revoked_in_the_middle_of_a_read_stops_it) {
  Script s;
  s.in(ask(0, 0, 3 * kMtu));
  CHECK_LINES(s.sent(1), "first 0:256 msn 1@0");
  s.regions().revoke(kKey);
  CHECK_LINES(s.sent(), "access 1");
  BOOST_TEST((s.connection().cause() == FailureCause::local_access));
}

BOOST_AUTO_TEST_CASE(a_read_within_another_message_is_invalid) {
  Script s;
  s.receive(1000);
  s.in({Opcode::send_first, 0, kMtu});
  BOOST_TEST((s.in(ask(1, 0, 1)).verdict == Verdict::refused));
  CHECK_LINES(s.out(), "invalid 1");
}

BOOST_AUTO_TEST_CASE(with_selective_repeat_a_read_takes_its_turn_and_its_psns) {
  Script s({.selective_repeat = true});
  BOOST_TEST((s.in(ask(1, 0, 2 * kMtu)).verdict == Verdict::out_of_order));
  s.in({Opcode::x_write_last, 3, 4, false, 0});
  s.in({Opcode::x_write_last, 0, 4, false, 8});
  CHECK_LINES(s.out(), "ack 0 msn 1 newest 0 [001]");
  s.in(ask(1, 0, 2 * kMtu));
  // The acknowledgement is for requests only, and it is sent first.
  CHECK_LINES(s.out(), "ack 3 msn 3 newest 1 []", "first 1:256 msn 2@0", "last 2:256 msn 2@256");
  // This WRITE uses a PSN that belongs to the responses of the next READ.
  s.in({Opcode::x_write_last, 6, 4, false, 0});
  BOOST_TEST((s.in(ask(4, 0, 3 * kMtu)).verdict == Verdict::refused));
}

// Tests of the requester.

BOOST_AUTO_TEST_CASE(responses_are_placed_in_order_and_complete_the_read) {
  Script s;
  const auto memory = s.read(2 * kMtu + 5, 9);
  post(s, SendOpcode::write, 4, 10);
  CHECK_LINES(s.out(), "read 0@0 of 517 ask", "write_only 3:4 of 4 ask");
  BOOST_TEST(s.response(Opcode::read_response_first, 0, kMtu).destination == memory.data());
  BOOST_TEST(s.response(Opcode::read_response_middle, 1, kMtu).destination == memory.data() + kMtu);
  CHECK_LINES(s.completions());
  s.response(Opcode::read_response_last, 2, 5);
  CHECK_LINES(s.completions(), "read 9 517");
  BOOST_TEST(is_ramp(memory));
  s.ack(3);
  CHECK_LINES(s.completions(), "write 10 4");
  BOOST_TEST((s.connection().next_deadline() == Time::never()));
}

BOOST_AUTO_TEST_CASE(a_read_of_nothing_is_answered_by_nothing) {
  Script s;
  s.read(0, 1);
  CHECK_LINES(s.out(), "read 0@0 of 0 ask");
  BOOST_TEST(s.response(Opcode::read_response_only, 0, 0).destination == nullptr);
  CHECK_LINES(s.completions(), "read 1 0");
}

BOOST_AUTO_TEST_CASE(a_response_acknowledges_what_was_before_its_request) {
  for (bool selective : {false, true}) {
    Script s({.selective_repeat = selective});
    post(s, SendOpcode::write, kMtu + 1, 1);
    post(s, SendOpcode::send, 1, 2);
    s.read(4, 3);
    s.out();
    s.response(Opcode::read_response_only, 3, 4);
    CHECK_LINES(s.completions(), "write 1 257", "send 2 1", "read 3 4");
    BOOST_TEST((s.connection().next_deadline() == Time::never()));
  }
}

BOOST_AUTO_TEST_CASE(a_long_read_is_asked_for_in_parts_and_so_many_at_a_time) {
  Script s({.max_rd_atomic = 2});
  s.read(3 * kReadRequestPackets * kMtu + 1, 1);
  CHECK_LINES(s.out(), "read 0@0 of 8192 ask", "read 32@8192 of 8192 ask");
  for (int psn = 0; psn < 32; ++psn)
    s.response(psn == 0   ? Opcode::read_response_first
               : psn < 31 ? Opcode::read_response_middle
                          : Opcode::read_response_last,
               psn, kMtu);
  CHECK_LINES(s.out(), "read 64@16384 of 8192 ask");
  Script narrow({.read_window_bytes = 8192});
  narrow.read(2 * kReadRequestPackets * kMtu, 1);
  CHECK_LINES(narrow.out(), "read 0@0 of 8192 ask");
}

BOOST_AUTO_TEST_CASE(a_lost_response_is_asked_for_again_from_there_on) {
  Script s;
  const auto memory = s.read(4 * kMtu, 1);
  post(s, SendOpcode::write, 4, 2);
  s.out();
  s.response(Opcode::read_response_first, 0, kMtu);
  s.response(Opcode::read_response_middle, 2, kMtu);  // Response 1 is missing.
  s.response(Opcode::read_response_last, 3, kMtu);
  CHECK_LINES(s.out(), "read 1@256 of 768 ask", "write_only 4:4 of 4 ask");
  BOOST_TEST(s.connection().counters().implied_naks == 1);
  s.response(Opcode::read_response_first, 1, kMtu);
  s.response(Opcode::read_response_middle, 2, kMtu);
  s.response(Opcode::read_response_last, 3, kMtu);
  s.ack(4);
  CHECK_LINES(s.completions(), "read 1 1024", "write 2 4");
  BOOST_TEST(is_ramp(memory));
}

BOOST_AUTO_TEST_CASE(an_acknowledgement_of_something_later_says_that_a_response_was_lost) {
  Script s;
  s.read(2 * kMtu, 1);
  post(s, SendOpcode::write, 4, 2);
  s.out();
  s.ack(2);
  CHECK_LINES(s.completions());
  CHECK_LINES(s.out(), "read 0@0 of 512 ask", "write_only 2:4 of 4 ask");
  // The READ is requested again only once. From here on, only the timer repeats it.
  s.ack(2);
  CHECK_LINES(s.out());
}

BOOST_AUTO_TEST_CASE(with_selective_repeat_only_the_read_is_asked_for_again) {
  Script s({.selective_repeat = true});
  s.read(2 * kMtu, 1);
  for (std::uint64_t id : {2, 3, 4, 5}) post(s, SendOpcode::write, 4, id);
  s.out();
  s.wait(microseconds(100));
  // The peer has received all requests, but the responses of the READ have not arrived.
  s.x_ack(5, 5);
  CHECK_LINES(s.out());
  s.response(Opcode::read_response_last, 1, kMtu);
  CHECK_LINES(s.out(), "read 0@0 of 512 ask");
  CHECK_LINES(s.completions());
  s.response(Opcode::read_response_first, 0, kMtu);
  s.response(Opcode::read_response_last, 1, kMtu);
  CHECK_LINES(s.completions(), "read 1 512", "write 2 4", "write 3 4", "write 4 4", "write 5 4");
  BOOST_TEST((s.connection().next_deadline() == Time::never()));
}

BOOST_AUTO_TEST_CASE(with_selective_repeat_a_lost_request_is_found_like_any_lost_packet) {
  Script s({.selective_repeat = true});
  s.read(2 * kMtu, 1);
  for (std::uint64_t id : {2, 3, 4}) post(s, SendOpcode::write, 4, id);
  s.out();
  s.x_ack(-1, 4, "00111");
  CHECK_LINES(s.out(), "read 0@0 of 512 ask");
  s.x_ack(4, 0);
  s.response(Opcode::read_response_first, 0, kMtu);
  s.response(Opcode::read_response_last, 1, kMtu);
  CHECK_LINES(s.completions(), "read 1 512", "write 2 4", "write 3 4", "write 4 4");
}

BOOST_AUTO_TEST_CASE(silence_asks_for_the_rest_again) {
  for (bool selective : {false, true}) {
    Script s({.selective_repeat = selective});
    s.read(3 * kMtu, 1);
    s.out();
    s.response(Opcode::read_response_first, 0, kMtu);
    s.wait(milliseconds(25));
    CHECK_LINES(s.out(), "read 1@256 of 512 ask");
    s.response(Opcode::read_response_first, 1, kMtu);
    s.wait(milliseconds(50));
    CHECK_LINES(s.out(), "read 2@512 of 256 ask");
    s.response(Opcode::read_response_only, 2, kMtu);
    CHECK_LINES(s.completions(), "read 1 768");
  }
}

BOOST_AUTO_TEST_CASE(late_and_doubled_responses_are_ignored) {
  Script s;
  const auto memory = s.read(2 * kMtu, 1);
  s.out();
  s.response(Opcode::read_response_first, 0, kMtu);
  BOOST_TEST(s.response(Opcode::read_response_first, 0, kMtu).destination == nullptr);
  s.response(Opcode::read_response_last, 1, kMtu);
  BOOST_TEST((s.response(Opcode::read_response_last, 1, kMtu).verdict == Verdict::duplicate));
  CHECK_LINES(s.completions(), "read 1 512");
  s.response(Opcode::read_response_only, 2, kMtu);
  BOOST_TEST(s.connection().counters().ghosts == 1);
  BOOST_TEST(is_ramp(memory));
}

BOOST_AUTO_TEST_CASE(a_response_that_does_not_fit_its_request_ends_the_connection) {
  const auto fails = [](Opcode opcode, int psn, std::size_t bytes) {
    Script s;
    s.read(2 * kMtu + 1, 1);
    s.out();
    for (int before = 0; before < psn; ++before) s.response(Opcode::read_response_middle, before, kMtu);
    BOOST_TEST(s.response(opcode, psn, bytes).destination == nullptr);
    BOOST_TEST((s.connection().cause() == FailureCause::bad_response));
    CHECK_LINES(s.completions(), "read 1 failed");
  };
  fails(Opcode::read_response_first, 0, kMtu - 1);
  fails(Opcode::read_response_only, 0, kMtu);
  fails(Opcode::read_response_last, 1, kMtu);
  fails(Opcode::read_response_middle, 2, 1);
  fails(Opcode::read_response_last, 2, 2);
}

BOOST_AUTO_TEST_CASE(a_refused_read_fails_and_names_its_cause) {
  Script s;
  s.read(2 * kMtu, 1);
  s.read(2 * kMtu, 2);
  s.out();
  s.response(Opcode::read_response_first, 0, kMtu);
  s.response(Opcode::read_response_last, 1, kMtu);
  s.ack(2, kRemoteAccess);
  BOOST_TEST((s.connection().cause() == FailureCause::remote_access));
  CHECK_LINES(s.completions(), "read 1 512", "read 2 failed");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing
