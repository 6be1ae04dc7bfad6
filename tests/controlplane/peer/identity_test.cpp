// Tests how the start time and the identity of a process are found.
#include "controlplane/peer/identity.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <optional>

#include "dataplane/base/descriptor.hpp"

BOOST_AUTO_TEST_SUITE(identity_test)

using namespace rdmc::peer;

BOOST_AUTO_TEST_CASE(a_process_was_started_once_and_one_that_is_not_there_never) {
  const ProcessIdentity self = identity_of_self();
  BOOST_TEST(self.started != 0u);
  BOOST_TEST(start_of_process(std::to_string(self.pid)) == self.started);
  BOOST_TEST(start_of_process("0") == 0u);
}

// The stat file of a process can be opened while the process lives. After the process has ended, reading this
// file fails. The test uses a directory in place of the file, because a directory can also be opened and not
// be read.
BOOST_AUTO_TEST_CASE(a_process_that_ends_while_its_file_is_read_is_not_there) {
  const auto place = std::filesystem::temp_directory_path() / ("rdmc-identity-" + std::to_string(::getpid()));
  std::filesystem::create_directories(place / "stat");
  BOOST_TEST(start_of_process(".." + place.string()) == 0u);
  std::filesystem::remove_all(place);
}

/// Returns the identity of a process in a new PID namespace without its own /proc, as `unshare --pid --fork`
/// without --mount-proc makes it. Returns nullopt if this machine does not permit that.
std::optional<ProcessIdentity> identity_in_a_pid_namespace_without_a_proc() {
  int ends[2];
  BOOST_TEST_REQUIRE(::pipe(ends) == 0);
  const rdmc::Descriptor from(ends[0]);
  rdmc::Descriptor to(ends[1]);
  const pid_t outer = ::fork();
  if (outer == 0) {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(1);
    if (::fork() == 0) {
      const ProcessIdentity self = identity_of_self();
      static_cast<void>(::write(to.get(), &self, sizeof self) == sizeof self);
    }
    ::_exit(0);
  }
  to = {};
  ProcessIdentity found;
  const bool is_found = ::read(from.get(), &found, sizeof found) == sizeof found;
  ::waitpid(outer, nullptr, 0);
  return is_found ? std::optional(found) : std::nullopt;
}

BOOST_AUTO_TEST_CASE(
    a_process_that_sees_the_proc_of_another_pid_namespace_does_not_know_when_it_was_started) {
  const auto identity = identity_in_a_pid_namespace_without_a_proc();
  if (!identity) {
    BOOST_TEST_MESSAGE("this user may make no namespaces");
    return;
  }
  BOOST_TEST(identity->pid == 1u);
  BOOST_TEST(identity->started == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
