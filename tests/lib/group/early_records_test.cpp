#include "lib/group/early_records.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(early_records_test)

using namespace rdmc;
using namespace rdmc::group;

namespace {

constexpr GroupName kSeven{.number = 7, .epoch = 1}, kEight{.number = 8};
constexpr PeerId kAnn{1}, kBen{2};

std::vector<std::byte> record(int value, std::size_t bytes = 8) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(value));
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_early_comes_out_in_the_order_it_came_each_group_for_itself) {
  EarlyRecords early({});
  for (int i = 0; i < 6; ++i) BOOST_TEST(!early.keep(i % 2 == 0 ? kSeven : kEight, kAnn, record(i), Time{}));
  for (const int expected : {0, 2, 4}) BOOST_TEST((early.take(kSeven)->record == record(expected)));
  BOOST_TEST(!early.take(kSeven));
  for (const int expected : {1, 3, 5}) BOOST_TEST((early.take(kEight)->record == record(expected)));
  BOOST_TEST(!early.take(kEight));
  BOOST_TEST(early.bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(a_group_that_is_not_made_in_time_is_refused_to_everybody_who_spoke_of_it_once) {
  EarlyRecords early({.patience = seconds(2)});
  for (const PeerId peer : {kAnn, kBen, kAnn}) BOOST_TEST(!early.keep(kSeven, peer, record(1), Time{5}));
  BOOST_TEST(!early.keep(kEight, kAnn, record(1), Time{} + seconds(1)));
  while (const auto waits = early.next_to_tell(Time{4} + seconds(2))) early.set_told(waits->name);
  BOOST_TEST((early.next_deadline() == Time{5} + seconds(2)));
  BOOST_TEST(!early.expire(Time{4} + seconds(2)));
  const auto refused = early.expire(Time{5} + seconds(2));
  BOOST_REQUIRE(refused.has_value());
  BOOST_TEST((refused->name == kSeven));
  BOOST_TEST((refused->peers == std::vector{kAnn, kBen}));
  BOOST_TEST(early.is_over(kSeven));
  BOOST_TEST(!early.is_over(kEight));
  BOOST_TEST(early.take(kEight).has_value());
}

BOOST_AUTO_TEST_CASE(a_group_may_take_any_time_to_be_made_and_everybody_who_waits_is_told_once) {
  EarlyRecords early({});
  const auto told = [&](Time now) {
    std::vector<PeerId> peers;
    while (const auto waits = early.next_to_tell(now)) {
      // Until set_told() is called for a peer, the same peer is returned again.
      BOOST_TEST((early.next_to_tell(now)->peer == waits->peer));
      peers.push_back(waits->peer);
      early.set_told(waits->name);
    }
    return peers;
  };
  constexpr Time kLate = Time{5} + EarlyRecords::kToldAfter;
  for (const PeerId peer : {kAnn, kAnn}) BOOST_TEST(!early.keep(kSeven, peer, record(1), Time{5}));
  BOOST_TEST((early.next_deadline() == kLate));
  BOOST_TEST(told(kLate - Duration{1}).empty());
  BOOST_TEST((told(kLate) == std::vector{kAnn}));
  BOOST_TEST((early.next_deadline() == Time::never()));
  BOOST_TEST(!early.keep(kSeven, kBen, record(2), kLate));
  BOOST_TEST((told(kLate) == std::vector{kBen}));
  early.forget(kAnn);
  BOOST_TEST(!early.keep(kSeven, kAnn, record(3), kLate));
  BOOST_TEST((told(kLate) == std::vector{kAnn}));
  BOOST_TEST(told(kLate + seconds(1'000'000)).empty());
  BOOST_TEST(!early.expire(kLate + seconds(1'000'000)));
  BOOST_TEST((early.take(kSeven)->peer == kBen));
}

BOOST_AUTO_TEST_CASE(what_has_no_effect_any_more_is_not_kept) {
  EarlyRecords early({});
  const GroupName earlier{.number = 7, .epoch = 0}, later{.number = 7, .epoch = 2};
  for (const GroupName& name : {earlier, kSeven, later, kEight})
    BOOST_TEST(!early.keep(name, kAnn, record(1), Time{}));
  early.forget_before(kSeven);
  BOOST_TEST(!early.take(earlier));
  for (const GroupName& name : {kSeven, later, kEight}) BOOST_TEST(early.take(name).has_value());
  for (const PeerId peer : {kAnn, kBen}) BOOST_TEST(!early.keep(kEight, peer, record(2), Time{}));
  early.forget(kEight, kAnn);
  BOOST_TEST((early.take(kEight)->peer == kBen));
  BOOST_TEST(early.bytes() == 0u);
}

BOOST_AUTO_TEST_CASE(too_much_is_refused_and_takes_no_memory_any_more) {
  EarlyRecords early({.bytes = 10'000});
  std::optional<EarlyRecords::Refused> refused;
  int kept = 0;
  for (; kept < 100 && !refused; ++kept) refused = early.keep(kSeven, kBen, record(kept, 1000), Time{});
  BOOST_TEST(kept < 12);
  BOOST_REQUIRE(refused.has_value());
  BOOST_TEST(early.bytes() == 0u);
  BOOST_TEST(early.is_over(kSeven));
}

BOOST_AUTO_TEST_CASE(groups_of_which_nothing_is_kept_but_their_names_count_too) {
  EarlyRecords early({.bytes = 100'000});
  std::uint64_t groups = 0;
  for (; groups < 1'000; ++groups) {
    const GroupName name{.number = groups};
    if (early.keep(name, kAnn, record(1), Time{})) break;
    early.forget(name, kAnn);
  }
  BOOST_TEST(groups > 10U);
  BOOST_TEST(groups < 1'000U);
  early.forget(kAnn);
  BOOST_TEST(early.bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_gone_leaves_nothing_behind) {
  EarlyRecords early({});
  BOOST_TEST(!early.keep(kSeven, kAnn, record(1), Time{}));
  BOOST_TEST(!early.keep(kSeven, kBen, record(2), Time{}));
  early.forget(kAnn);
  BOOST_TEST((early.take(kSeven)->peer == kBen));
  BOOST_TEST(!early.take(kSeven));
  BOOST_TEST(early.bytes() == 0u);
  BOOST_TEST((early.next_deadline() == Time::never()));
}

BOOST_AUTO_TEST_CASE(of_the_groups_that_are_over_the_last_ones_are_remembered) {
  EarlyRecords early({});
  for (std::uint64_t i = 0; i <= EarlyRecords::kMostOver; ++i) early.set_over({.number = i});
  BOOST_TEST(!early.is_over({.number = 0}));
  BOOST_TEST(early.is_over({.number = 1}));
  BOOST_TEST(early.is_over({.number = EarlyRecords::kMostOver}));
}

BOOST_AUTO_TEST_SUITE_END()
