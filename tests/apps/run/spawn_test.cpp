// The functions with which rdmc_run starts and watches processes.
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "apps/run/spawn.hpp"

BOOST_AUTO_TEST_SUITE(spawn_test)

using namespace rdmc::run;

BOOST_AUTO_TEST_CASE(a_process_exits_from_its_death_until_somebody_has_waited_for_it) {
  BOOST_TEST(!is_exiting(::getpid()));
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(1);
  }
  BOOST_TEST(!is_exiting(child));
  ::kill(child, SIGKILL);
  siginfo_t info{};
  BOOST_REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  BOOST_TEST(is_exiting(child));
  BOOST_REQUIRE(::waitpid(child, nullptr, 0) == child);
  BOOST_TEST(!is_exiting(child));
  BOOST_TEST(!is_exiting(-1));
}

BOOST_AUTO_TEST_SUITE_END()
