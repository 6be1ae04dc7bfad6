// Tests that COMPARE & SWAP and FETCH & ADD are executed once, and answered each time they are requested
// (IBTA vol. 1, 9.4.5).
#include <boost/test/unit_test.hpp>

#include "tests/dataplane/roce/script.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(atomic_test)
namespace {

In swap(int psn, std::uint64_t compare, std::uint64_t to, std::uint64_t at = 8) {
  return {.opcode = Opcode::compare_swap, .psn = psn, .at = at, .swap_or_add = to, .compare = compare};
}
In add(int psn, std::uint64_t value, std::uint64_t at = 8) {
  return {.opcode = Opcode::fetch_add, .psn = psn, .at = at, .swap_or_add = value};
}
std::uint64_t value_at(Script& s, std::size_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, s.memory().data() + offset, sizeof value);
  return value;
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_atomic_returns_the_value_before_it) {
  Script s;
  s.in(add(0, 5));
  s.in(swap(1, 5, 100));
  s.in(swap(2, 5, 200));  // The value is 100 by now, so nothing is swapped.
  s.in(add(3, UINT64_MAX));
  CHECK_LINES(s.out(), "atomic 0 msn 1 was 0", "atomic 1 msn 2 was 5", "atomic 2 msn 3 was 100",
              "atomic 3 msn 4 was 100");
  BOOST_TEST(value_at(s, 8) == 99u);
  BOOST_TEST(value_at(s, 0) == 0u);
  BOOST_TEST(value_at(s, 16) == 0u);
}

BOOST_AUTO_TEST_CASE(a_duplicate_atomic_is_answered_again_and_not_executed_again) {
  Script s;
  s.in(add(0, 5));
  s.in(swap(1, 5, 9));
  s.out();
  s.in(add(0, 5));
  s.in(swap(1, 5, 9));
  CHECK_LINES(s.out(), "atomic 0 msn 1 was 0", "atomic 1 msn 2 was 5");
  BOOST_TEST(value_at(s, 8) == 9u);
  // PSN 0 was another atomic, so this is no repetition of it.
  BOOST_TEST((s.in(swap(0, 0, 7)).verdict == Verdict::duplicate));
  CHECK_LINES(s.out());
  BOOST_TEST(value_at(s, 8) == 9u);
}

BOOST_AUTO_TEST_CASE(as_many_results_are_kept_as_atomics_may_be_under_way) {
  Script s({.max_dest_rd_atomic = 3});
  for (int psn = 0; psn < 5; ++psn) {
    s.in(add(psn, 1));
    s.out();
  }
  // The peer has requested three more atomics since then, so it cannot be waiting for this answer.
  s.in(add(1, 1));
  CHECK_LINES(s.out());
  for (int psn : {2, 3, 4}) s.in(add(psn, 1));
  CHECK_LINES(s.out(), "atomic 2 msn 3 was 2", "atomic 3 msn 4 was 3", "atomic 4 msn 5 was 4");
  BOOST_TEST(value_at(s, 8) == 5u);
}

BOOST_AUTO_TEST_CASE(atomics_where_they_may_not_be_are_refused) {
  std::vector<std::byte> memory(64);
  const RemoteKey no_atomics{5}, askew{6};
  const std::vector<std::pair<In, std::string>> bad{
      {add(0, 1, 4), "invalid"},                 // This address is no multiple of 8.
      {add(0, 1, (1 << 16) - 8 + 8), "access"},  // This address is after the end of the region.
      {[&] {
         In p = add(0, 1, 8);
         p.key = no_atomics;
         return p;
       }(),
       "access"},
      {[&] {
         In p = add(0, 1, 8);
         p.key = askew;
         return p;
       }(),
       "invalid"}};
  for (const auto& [packet, nak] : bad) {
    Script s;
    s.regions().add(no_atomics, kBase, memory, RemoteAccess::write | RemoteAccess::read);
    s.regions().add(askew, kBase, std::span(memory).subspan(1), kAnyAccess);
    BOOST_TEST((s.in(packet).verdict == Verdict::refused));
    CHECK_LINES(s.out(), nak + " 0");
    for (const std::byte b : memory) BOOST_TEST(std::to_integer<int>(b) == 0);
  }
}

BOOST_AUTO_TEST_CASE(an_atomic_is_complete_with_its_answer_and_no_sooner) {
  for (bool selective : {false, true}) {
    Script s({.selective_repeat = selective});
    BOOST_REQUIRE(s.atomic(SendOpcode::fetch_add, 1, 5));
    BOOST_REQUIRE(s.atomic(SendOpcode::compare_swap, 2, 7, 6));
    CHECK_LINES(s.out(), "fetch_add 0@8 5", "compare_swap 1@8 6 7");
    s.atomic_ack(0, 42);
    CHECK_LINES(s.completions(), "atomic 1 8 was 42");
    s.wait(milliseconds(25));
    CHECK_LINES(s.out(), "compare_swap 1@8 6 7");
    s.atomic_ack(1, 6);
    CHECK_LINES(s.completions(), "atomic 2 8 was 6");
  }
}

BOOST_AUTO_TEST_CASE(the_answer_of_a_read_is_none_of_an_atomic) {
  Script s;
  BOOST_REQUIRE(s.atomic(SendOpcode::fetch_add, 1, 5));
  s.out();
  s.response(Opcode::read_response_only, 0, 0);
  BOOST_TEST((s.connection().cause() == FailureCause::bad_response));
  Script other;
  other.read(0, 1);
  other.out();
  other.atomic_ack(0, 1);
  BOOST_TEST((other.connection().cause() == FailureCause::bad_response));
}

BOOST_AUTO_TEST_CASE(an_atomic_on_an_odd_address_is_not_even_posted) {
  Script s;
  const auto posted = s.connection().post_atomic({.remote_address = kBase + 4, .remote_key = kKey});
  BOOST_REQUIRE(!posted);
  BOOST_TEST((posted.error().code == Errc::invalid_argument));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing
