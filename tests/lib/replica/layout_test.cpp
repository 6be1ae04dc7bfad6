#include "lib/replica/layout.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include "tests/lib/replica/generators.hpp"

BOOST_AUTO_TEST_SUITE(layout_test)

using namespace rdmc;
using namespace rdmc::replica;
using rdmc::testing::any_layout;
using rdmc::testing::failed_with;

BOOST_AUTO_TEST_CASE(processes_are_numbered_by_rank_and_then_by_replica) {
  BOOST_TEST(rc::check("layouts", [] {
    const Layout layout = *any_layout();
    std::uint32_t process = 0;
    for (std::uint32_t rank = 0; rank < layout.ranks(); ++rank)
      for (std::uint32_t replica = 0; replica < layout.degree(Rank{rank}); ++replica, ++process) {
        const ReplicaId id{Rank{rank}, replica};
        RC_ASSERT((layout.contains(id)));
        RC_ASSERT((layout.process(id) == ProcessId{process}));
        RC_ASSERT((layout.replica(ProcessId{process}) == id));
        RC_ASSERT((layout.rank(ProcessId{process}) == Rank{rank}));
      }
    RC_ASSERT(layout.processes() == process);
    RC_ASSERT(!layout.contains({Rank{layout.ranks()}, 0}));
    RC_ASSERT(!layout.contains({Rank{0}, layout.degree(Rank{0})}));
  }));
}

BOOST_AUTO_TEST_CASE(a_layout_is_the_same_after_it_is_written_and_read) {
  BOOST_TEST(rc::check("layouts", [] {
    const Layout layout = *any_layout();
    const auto read = Layout::parse(layout.text());
    RC_ASSERT((read && *read == layout));
  }));
  BOOST_TEST(Layout::of({2, 2, 2, 2, 1, 3})->text() == "2x4,1,3");
  BOOST_TEST(Layout().text() == "1");
}

BOOST_AUTO_TEST_CASE(a_layout_without_ranks_or_replicas_or_with_too_many_processes_is_refused) {
  BOOST_TEST(failed_with(Layout::of({}), Errc::invalid_argument));
  BOOST_TEST(failed_with(Layout::of({1, 0}), Errc::invalid_argument));
  BOOST_TEST(failed_with(Layout::of({Layout::kMostProcesses, 1}), Errc::invalid_argument));
  BOOST_TEST(failed_with(Layout::of({~0u, ~0u}), Errc::invalid_argument));
  BOOST_TEST(failed_with(Layout::uniform(~0u, 1), Errc::invalid_argument));
  BOOST_TEST(Layout::of({Layout::kMostProcesses}).has_value());
}

BOOST_AUTO_TEST_CASE(damaged_text_is_refused) {
  for (const char* const text : {"", ",", "2,", ",2", "2,,2", "x", "2x", "x2", "2x0", "0x2", "2x2x2", "-1",
                                 "+1", "2 ", "2x99999999999", "2x16385", "99999999999", "1x16384,1"})
    BOOST_TEST(failed_with(Layout::parse(text), Errc::invalid_argument), "accepted: " << text);
}

BOOST_AUTO_TEST_SUITE_END()
