#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "controlplane/view/listening.hpp"

namespace rdmc::view {
BOOST_AUTO_TEST_SUITE(listening_test)
namespace {

constexpr Duration kStep = milliseconds(100);

Time at_ms(std::int64_t ms) {
  return Time{} + milliseconds(ms);
}

BOOST_AUTO_TEST_CASE(it_goes_with_the_local_time_while_answers_come_soon) {
  Listening listening(kStep);
  for (int ms = 0; ms <= 1000; ms += 50) {
    listening.ask(at_ms(ms));
    BOOST_TEST(listening.answered(at_ms(ms + 1)));
  }
  BOOST_TEST((listening.proven() == at_ms(1000)));
  BOOST_TEST((listening.at(at_ms(1030)) == at_ms(1030)));
  BOOST_TEST((listening.to_local(at_ms(1030)) == at_ms(1030)));
}

BOOST_AUTO_TEST_CASE(time_without_an_answer_counts_as_one_step_and_proves_nothing_before_it_comes) {
  Listening listening(kStep);
  listening.ask(at_ms(50));
  BOOST_TEST((listening.proven() == at_ms(0)));
  BOOST_TEST((listening.at(at_ms(900)) == Time{} + kStep));
  BOOST_TEST(!listening.answered(at_ms(900)));
  BOOST_TEST((listening.proven() == at_ms(50)));
  listening.ask(at_ms(900));
  BOOST_TEST(listening.answered(at_ms(900)));
  BOOST_TEST((listening.proven() == at_ms(150)));
}

BOOST_AUTO_TEST_CASE(it_never_falls_and_what_is_proven_is_never_ahead) {
  BOOST_TEST(rc::check([] {
    Listening listening(kStep);
    Time local{}, last{};
    for (int i = 0; i < 60; ++i) {
      local = local + milliseconds(*rc::gen::inRange(0, 180));
      if (*rc::gen::arbitrary<bool>()) {
        if (listening.is_asking())
          listening.answered(local);
        else
          listening.ask(local);
      }
      RC_ASSERT(listening.at(local) >= last);
      RC_ASSERT(listening.proven() <= listening.at(local));
      last = listening.at(local);
    }
  }));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::view
