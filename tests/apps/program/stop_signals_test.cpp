// The tested functions end the process, so each test runs them in a child process.
#include "apps/program/stop_signals.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <functional>

#include "dataplane/base/clock.hpp"

BOOST_AUTO_TEST_SUITE(stop_signals_test)

using namespace rdmc;

namespace {

constexpr int kEnd = 3, kWentOn = 77;

[[noreturn]] void hang() {
  for (;;) ::pause();
}

/// Blocks the signals in a child process, runs `deed` there, and returns its exit code. Returns -1 if a
/// signal killed it.
int exit_code_of(const std::function<void(StopSignals&)>& deed) {
  const auto child = ::fork();
  if (child == 0) {
    auto stop = StopSignals::block();
    if (!stop) ::_exit(1);
    deed(*stop);
    ::_exit(kWentOn);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_signal_is_an_event_and_taken_once) {
  auto stop = StopSignals::block();
  BOOST_REQUIRE(stop.has_value());
  BOOST_TEST(!stop->take());
  ::raise(SIGTERM);
  BOOST_TEST((stop->wait() == StopSignals::Event::signal));
  BOOST_TEST(!stop->take());
  ::raise(SIGINT);
  BOOST_TEST(stop->take());
  stop->notify();
  BOOST_TEST((stop->wait() == StopSignals::Event::notified));
}

BOOST_AUTO_TEST_CASE(what_hangs_at_the_end_ends_when_patience_does) {
  const auto before = monotonic_now();
  BOOST_TEST(exit_code_of([](StopSignals& stop) {
               stop.end_within(milliseconds(100), kEnd);
               hang();
             }) == kEnd);
  BOOST_TEST((monotonic_now() - before >= milliseconds(100)));
}

BOOST_AUTO_TEST_CASE(what_hangs_at_the_end_ends_at_the_next_signal) {
  for (const int number : {SIGINT, SIGTERM}) {
    BOOST_TEST(exit_code_of([number](StopSignals& stop) {
                 stop.end_within(seconds(3600), kEnd);
                 ::raise(number);
               }) == kEnd);
  }
}

BOOST_AUTO_TEST_CASE(a_signal_that_came_before_the_end_does_not_cut_it_short) {
  BOOST_TEST(exit_code_of([](StopSignals& stop) {
               ::raise(SIGINT);
               ::raise(SIGTERM);
               stop.end_within(seconds(3600), kEnd);
             }) == kWentOn);
}

BOOST_AUTO_TEST_SUITE_END()
