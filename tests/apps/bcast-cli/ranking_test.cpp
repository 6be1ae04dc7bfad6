#include "apps/bcast-cli/ranking.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

BOOST_AUTO_TEST_SUITE(ranking_test)

using namespace rdmc;
using namespace rdmc::bcast;
using session::MemberId;

namespace {

std::vector<MemberId> ids(std::initializer_list<std::uint32_t> numbers) {
  std::vector<MemberId> members;
  for (const auto number : numbers) members.push_back(MemberId{number});
  return members;
}

std::vector<session::MemberInfo> infos(const std::vector<MemberId>& members) {
  std::vector<session::MemberInfo> all;
  for (const auto member : members)
    all.push_back({member, Rank{static_cast<std::uint32_t>(all.size())}, "", ""});
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_racks_members_keep_their_order) {
  const auto ranking = rank_by_rack(ids({5, 2, 9}), {});
  BOOST_CHECK(ranking.members == ids({5, 2, 9}));
  BOOST_TEST(!ranking.racks.is_known());
  BOOST_TEST(racks_of(infos(ranking.members), ranking.racks).empty());
}

BOOST_AUTO_TEST_CASE(members_of_a_rack_are_side_by_side_and_those_of_none_share_one) {
  const RackOf racks{{MemberId{0}, 1}, {MemberId{1}, 2}, {MemberId{2}, 1}, {MemberId{4}, 2}};
  const auto ranking = rank_by_rack(ids({0, 1, 2, 3, 4, 5}), racks);
  BOOST_CHECK(ranking.members == ids({0, 2, 1, 4, 3, 5}));
  BOOST_CHECK((ranking.racks.sizes() == std::vector<std::uint32_t>{2, 2, 2}));
}

// The next epoch after a failure can have another source, for example after the sender's death.
BOOST_AUTO_TEST_CASE(survivors_of_an_epoch_rank_themselves_by_the_same_racks) {
  BOOST_TEST(rc::check([] {
    RackOf racks;
    std::vector<MemberId> members;
    const auto count = *rc::gen::inRange<std::uint32_t>(2, 40);
    for (std::uint32_t i = 0; i < count; ++i) {
      members.push_back(MemberId{i});
      racks[MemberId{i}] = *rc::gen::inRange<std::uint32_t>(0, 5);
    }
    const auto first = rank_by_rack(members, racks);
    const auto told = racks_of(infos(first.members), first.racks);
    std::vector<MemberId> survivors{first.members[*rc::gen::inRange<std::size_t>(0, count)]};
    for (const auto member : first.members)
      if (member != survivors[0] && *rc::gen::arbitrary<bool>()) survivors.push_back(member);
    const auto next = rank_by_rack(survivors, told);
    RC_ASSERT(next.members[0] == survivors[0]);
    RC_ASSERT(std::ranges::is_permutation(next.members, survivors));
    RC_ASSERT(next.racks.members() == survivors.size());
    std::set<std::uint32_t> seen;
    for (const auto& rack : next.racks.all()) {
      const auto label = racks.at(next.members[rack.head]);
      RC_ASSERT(seen.insert(label).second);
      for (std::uint32_t i = 0; i < rack.members; ++i)
        RC_ASSERT(racks.at(next.members[rack.head + i]) == label);
    }
  }));
}

BOOST_AUTO_TEST_CASE(stragglers_are_the_last_rack_while_others_lack_blocks) {
  using Candidate = session::ParametersNeeded::Candidate;
  const auto candidate = [](std::uint32_t id, bool is_straggler) {
    return Candidate{.member = MemberId{id}, .state = {}, .is_straggler = is_straggler};
  };
  std::vector<Candidate> lacking{candidate(1, false), candidate(2, true), candidate(3, false)};
  const auto stragglers = take_stragglers(lacking);
  BOOST_CHECK(stragglers == ids({2}));
  BOOST_TEST(lacking.size() == 2u);
  const auto flat = with_stragglers(rank_by_rack(ids({0, 1, 3}), {}), stragglers);
  BOOST_CHECK(flat.members == ids({0, 1, 3, 2}));
  BOOST_CHECK((flat.racks.sizes() == std::vector<std::uint32_t>{3, 1}));
  const RackOf racks{{MemberId{0}, 1}, {MemberId{1}, 2}, {MemberId{3}, 1}};
  const auto in_racks = with_stragglers(rank_by_rack(ids({0, 1, 3}), racks), stragglers);
  BOOST_CHECK(in_racks.members == ids({0, 3, 1, 2}));
  BOOST_CHECK((in_racks.racks.sizes() == std::vector<std::uint32_t>{2, 1, 1}));
  std::vector<Candidate> all{candidate(2, true)};
  BOOST_TEST(take_stragglers(all).empty());
  BOOST_TEST(all.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
