// What is known of a process by its number.
#include "controlplane/peer/identity.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>

BOOST_AUTO_TEST_SUITE(identity_test)

using namespace rdmc::peer;

BOOST_AUTO_TEST_CASE(a_process_was_started_once_and_one_that_is_not_there_never) {
  const ProcessIdentity self = identity_of_self();
  BOOST_TEST(self.started != 0u);
  BOOST_TEST(start_of_process(std::to_string(self.pid)) == self.started);
  BOOST_TEST(start_of_process("0") == 0u);
}

// The file of a process can be opened while the process lives, and be read no more when it has ended. A
// directory is such a file, too.
BOOST_AUTO_TEST_CASE(a_process_that_ends_while_its_file_is_read_is_not_there) {
  const auto place = std::filesystem::temp_directory_path() / ("rdmc-identity-" + std::to_string(::getpid()));
  std::filesystem::create_directories(place / "stat");
  BOOST_TEST(start_of_process(".." + place.string()) == 0u);
  std::filesystem::remove_all(place);
}

BOOST_AUTO_TEST_SUITE_END()
