// Tests end-to-end credits (IBTA vol. 1, 9.7.7.2). The responder reports how many receives are posted. The
// requester may start at most one message more than that.
#include "dataplane/roce/credits.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/dataplane/roce/script.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(credits_test)
namespace {

const ConnectionConfig kLimited{.end_to_end_credits = true};

void post(Script& s, SendOpcode opcode, std::size_t bytes = 1) {
  BOOST_REQUIRE(s.post(opcode, bytes).has_value());
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_code_stands_for_no_more_credits_than_there_are) {
  for (std::uint32_t receives = 0; receives < 70'000; ++receives) {
    const std::uint8_t code = credit_code(receives);
    BOOST_REQUIRE(code < kUnlimitedCredits);
    BOOST_REQUIRE(kCreditCodes[code] <= receives);
    if (code + 1u < kCreditCodes.size()) BOOST_REQUIRE(kCreditCodes[code + 1u] > receives);
  }
}

BOOST_AUTO_TEST_CASE(before_the_first_answer_one_message_leaves) {
  Script s(kLimited);
  for (int i = 0; i < 4; ++i) post(s, SendOpcode::send, kMtu + 1);
  CHECK_LINES(s.out(), "send_first 0:256", "send_last 1:1 ask");
  // 2 receives are left, so messages 2 and 3 may start. Message 4 may start without a receive.
  s.ack(1, credit_code(2), 1);
  CHECK_LINES(s.out(), "send_first 2:256", "send_last 3:1 ask", "send_first 4:256", "send_last 5:1 ask",
              "send_first 6:256", "send_last 7:1 ask");
}

BOOST_AUTO_TEST_CASE(unlimited_once_said_holds) {
  Script s(kLimited);
  for (int i = 0; i < 4; ++i) post(s, SendOpcode::send);
  BOOST_TEST(s.out().size() == 1);
  s.ack(0, kAckSyndrome, 1);
  BOOST_TEST(s.out().size() == 3);
  s.ack(1, credit_code(0), 2);
  for (int i = 0; i < 3; ++i) post(s, SendOpcode::send);
  BOOST_TEST(s.out().size() == 3);
}

BOOST_AUTO_TEST_CASE(without_credits_one_message_at_a_time_asks_for_them) {
  Script s(kLimited);
  for (int i = 0; i < 3; ++i) post(s, SendOpcode::send);
  for (int psn = 0; psn < 3; ++psn) {
    CHECK_LINES(s.out(), fmt::format("send_only {}:1 ask", psn));
    s.ack(psn, rnr_syndrome(1));
    s.wait(rnr_delay(1));
    CHECK_LINES(s.out(), fmt::format("send_only {}:1 ask", psn));
    s.ack(psn, credit_code(0), static_cast<std::uint32_t>(psn + 1));
  }
  CHECK_LINES(s.out());
  BOOST_TEST(s.completions().size() == 3);
}

BOOST_AUTO_TEST_CASE(what_needs_no_receive_needs_no_credit) {
  Script s(kLimited);
  post(s, SendOpcode::send);
  post(s, SendOpcode::write);
  s.read(1);
  post(s, SendOpcode::write_immediate);
  CHECK_LINES(s.out(), "send_only 0:1 ask", "write_only 1:1 of 1 ask", "read 2@0 of 1 ask");
  s.response(Opcode::read_response_only, 2, 1, credit_code(0), 3);
  CHECK_LINES(s.out(), "write_only_immediate 3:1 of 1 ask");
}

BOOST_AUTO_TEST_CASE(an_old_answer_takes_no_credits_back) {
  Script s(kLimited);
  for (int i = 0; i < 6; ++i) post(s, SendOpcode::send);
  s.out();
  s.ack(0, credit_code(3), 1);
  BOOST_TEST(s.out().size() == 4);
  s.ack(0, credit_code(0), 1);
  s.ack(4, credit_code(0), 5);
  BOOST_TEST(s.out().size() == 1);
}

BOOST_AUTO_TEST_CASE(a_read_response_brings_credits_too) {
  Script s(kLimited);
  s.read(1);
  for (int i = 0; i < 3; ++i) post(s, SendOpcode::send);
  BOOST_TEST(s.out().size() == 2);
  s.response(Opcode::read_response_only, 0, 1, credit_code(2), 1);
  BOOST_TEST(s.out().size() == 2);
}

BOOST_AUTO_TEST_CASE(the_responder_reports_its_receives_and_new_ones_after_none) {
  Script s(kLimited);
  for (int i = 0; i < 6; ++i) s.receive(1);
  s.in({Opcode::send_only, 0, 1, true});
  CHECK_LINES(s.out(), "ack 0 msn 1 credits 4");  // There is no credit code for 5 receives.
  for (int psn = 1; psn < 6; ++psn) s.in({Opcode::send_only, psn, 1, true});
  CHECK_LINES(s.out(), "ack 5 msn 6 credits 0");
  s.receive(1);
  s.receive(1);
  CHECK_LINES(s.out(), "ack 5 msn 6 credits 2");
  s.receive(1);
  CHECK_LINES(s.out());
}

BOOST_AUTO_TEST_CASE(who_was_not_asked_to_report_none_is_unlimited) {
  Script s;
  s.receive(1);
  s.in({Opcode::send_only, 0, 1, true});
  CHECK_LINES(s.out(), "ack 0 msn 1");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing
