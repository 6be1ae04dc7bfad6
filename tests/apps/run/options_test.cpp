#include "apps/run/options.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(options_test)

using namespace rdmc;
using namespace rdmc::run;
using replica::Layout;

BOOST_AUTO_TEST_CASE(a_map_names_the_degrees_that_differ) {
  BOOST_TEST((*layout_of_map("", 3, 2) == *Layout::uniform(3, 2)));
  BOOST_TEST((*layout_of_map("# a comment\n\n 0 3 # first\n2-3 1", 5, 2) == *Layout::of({3, 2, 1, 1, 2})));
}

BOOST_AUTO_TEST_CASE(a_wrong_map_is_refused_with_the_line) {
  for (const char* const map : {"0 1\n1", "0 1\n1 2 3", "0 1\n3 1", "0 1\n2-1 1", "0 1\nx 1", "0 1\n1 0",
                                "0 1\n1 x", "0 1\n0-1 1", "0 1\n-1 1", "0 1\n1- 1", "0 1\n0-4294967295 1"}) {
    const auto layout = layout_of_map(map, 3, 2);
    BOOST_TEST(!layout.has_value(), map);
    if (!layout)
      BOOST_TEST(layout.error().what.starts_with("line 2 of the replica map: "), layout.error().what);
  }
  BOOST_TEST(!layout_of_map("", 4'000'000'000u, 2).has_value());
  BOOST_TEST(!layout_of_map("0-1 16384", 2, 2).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
