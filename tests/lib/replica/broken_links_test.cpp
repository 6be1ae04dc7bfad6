// These tests are about how long a process waits for the news that the process at the other end of a broken
// link is dead.
#include "lib/replica/broken_links.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(broken_links_test)

using namespace rdmc;
using namespace rdmc::replica;

namespace {

constexpr Duration kPatience = BrokenLinks::kDeathPatience;
constexpr Time kStart{};
const Error kLost{Errc::peer_failed, "no answer"};

}  // namespace

BOOST_AUTO_TEST_CASE(a_link_is_fatal_if_no_death_is_reported_for_too_long) {
  BrokenLinks broken;
  broken.add(ProcessId{1}, kLost);
  BOOST_TEST(broken.find_fatal(kStart) == nullptr);
  BOOST_TEST(broken.find_fatal(kStart + kPatience) == nullptr);
  const auto* const fatal = broken.find_fatal(kStart + kPatience + nanoseconds(1));
  BOOST_REQUIRE(fatal != nullptr);
  BOOST_TEST((fatal->process == ProcessId{1} && fatal->cause.what == "no answer"));
}

BOOST_AUTO_TEST_CASE(each_link_has_its_own_patience) {
  BrokenLinks broken;
  Time now = kStart;
  // There is a broken link at all times, but each death is reported in time.
  for (std::uint32_t i = 0; i < 10; ++i) {
    broken.add(ProcessId{i}, kLost);
    BOOST_TEST(broken.find_fatal(now) == nullptr);
    now = now + kPatience / 2;
    BOOST_TEST(broken.find_fatal(now) == nullptr);
    if (i != 0) broken.remove(ProcessId{i - 1});
    BOOST_TEST(!broken.is_empty());
  }
  // The older one of two links is fatal first, in whatever order they are here.
  broken.add(ProcessId{10}, kLost);
  BOOST_TEST(broken.find_fatal(now) == nullptr);
  const auto* const fatal = broken.find_fatal(now + kPatience / 2 + nanoseconds(1));
  BOOST_REQUIRE(fatal != nullptr);
  BOOST_TEST((fatal->process == ProcessId{9}));
}

BOOST_AUTO_TEST_CASE(a_process_whose_link_breaks_again_after_its_recovery_gets_new_patience) {
  BrokenLinks broken;
  broken.add(ProcessId{1}, kLost);
  BOOST_TEST(broken.find_fatal(kStart) == nullptr);
  broken.remove(ProcessId{1});
  broken.add(ProcessId{1}, kLost);
  BOOST_TEST(broken.find_fatal(kStart + kPatience) == nullptr);
  BOOST_TEST(broken.find_fatal(kStart + kPatience * 2) == nullptr);
  BOOST_TEST(broken.find_fatal(kStart + kPatience * 2 + nanoseconds(1)) != nullptr);
}

BOOST_AUTO_TEST_CASE(a_fault_is_fatal_at_once) {
  for (const Errc code : {Errc::protocol_error, Errc::resource_limit}) {
    BrokenLinks broken;
    broken.add(ProcessId{1}, kLost);
    broken.add(ProcessId{2}, {code, "bad"});
    const auto* const fatal = broken.find_fatal(kStart);
    BOOST_REQUIRE(fatal != nullptr);
    BOOST_TEST((fatal->process == ProcessId{2}));
  }
}

BOOST_AUTO_TEST_SUITE_END()
