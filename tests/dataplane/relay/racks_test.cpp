// Tests the class Racks.
#include "dataplane/relay/racks.hpp"

#include <boost/test/unit_test.hpp>

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(racks_test)
namespace {

Result<Racks> racks(const std::vector<std::uint32_t>& sizes) {
  return Racks::of(sizes);
}

BOOST_AUTO_TEST_CASE(racks_say_who_heads_them_and_when_they_start) {
  const auto some = racks({4, 1, 3, 2});
  BOOST_REQUIRE(some.has_value());
  BOOST_TEST(some->members() == 10u);
  const std::vector<Rack> expected{{0, 4, 0}, {4, 1, 3}, {5, 3, 4}, {8, 2, 6}};
  BOOST_CHECK(std::ranges::equal(some->all(), expected));
  const std::vector<std::size_t> index{0, 0, 0, 0, 1, 2, 2, 2, 3, 3};
  for (std::uint32_t rank = 0; rank < 10; ++rank) BOOST_TEST(some->index_of(rank) == index[rank]);
  BOOST_CHECK((some->sizes() == std::vector<std::uint32_t>{4, 1, 3, 2}));
}

BOOST_AUTO_TEST_CASE(racks_are_compared_by_what_they_say) {
  BOOST_CHECK(*racks({2, 3}) == *racks({2, 3}));
  BOOST_CHECK(!(*racks({2, 3}) == *racks({3, 2})));
  BOOST_CHECK(*racks({7}) == Racks::one(7));
  BOOST_CHECK(!(Racks::one(7) == Racks{}));
  BOOST_TEST(!Racks{}.is_known());
  BOOST_TEST(Racks{}.members() == 0u);
}

BOOST_AUTO_TEST_CASE(no_racks_empty_racks_and_too_many_members_are_named) {
  BOOST_CHECK(racks({}).error().code == Errc::invalid_argument);
  BOOST_CHECK(racks({3, 0, 2}).error().code == Errc::invalid_argument);
  BOOST_CHECK(racks({kMaxMembers}).has_value());
  BOOST_CHECK(racks({kMaxMembers, 1}).error().code == Errc::invalid_argument);
  BOOST_CHECK(racks({0xFFFF'FFFF, 2}).error().code == Errc::invalid_argument);
}

BOOST_AUTO_TEST_CASE(members_are_ordered_by_rack_with_the_roots_first) {
  const auto [order, racks] = order_by_rack(std::vector<std::uint32_t>{7, 3, 9, 7, 9, 3, 3});
  BOOST_CHECK((order == std::vector<std::size_t>{0, 3, 1, 5, 6, 2, 4}));
  BOOST_CHECK((racks.sizes() == std::vector<std::uint32_t>{2, 3, 2}));
  const auto alone = order_by_rack(std::vector<std::uint32_t>{1});
  BOOST_CHECK(alone.racks == Racks::one(1));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
