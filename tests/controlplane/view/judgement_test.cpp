#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "controlplane/view/judgement.hpp"

namespace rdmc::view {
BOOST_AUTO_TEST_SUITE(judgement_test)
namespace {

MemberId id(std::size_t i) {
  return MemberId{i + 1};
}

/// A group in which every member hears all others, until a test changes this. `seen_by` returns the testimony
/// of one member.
struct Group {
  explicit Group(std::size_t members) : hears(members, std::vector<bool>(members, true)) {
    for (std::size_t i = 0; i < members; ++i) view.members.push_back({.id = id(i)});
  }
  std::size_t size() const { return hears.size(); }
  void silence(std::size_t who) {
    for (std::size_t i = 0; i < size(); ++i) hears[i][who] = hears[who][i] = false;
  }
  Row row(std::size_t who) const {
    Row row;
    for (std::size_t i = 0; i < size(); ++i)
      if (i != who && hears[who][i]) row.insert(id(i));
    return row;
  }
  Testimony seen_by(std::size_t self) const {
    Testimony words{.self = id(self), .hears = row(self)};
    for (std::size_t i = 0; i < size(); ++i)
      if (words.hears.contains(id(i))) words.rows[id(i)] = row(i);
    return words;
  }
  Judgement judged_by(std::size_t self) const { return judge(view, seen_by(self)); }

  View view{.epoch = Epoch{1}};
  std::vector<std::vector<bool>> hears;  // [hearing member][heard member]
};

std::size_t any(std::size_t below) {
  return *rc::gen::inRange<std::size_t>(0, below);
}

BOOST_AUTO_TEST_CASE(while_everybody_hears_everybody_nobody_is_removed_and_the_oldest_may_propose_first) {
  for (std::size_t members = 1; members < 10; ++members)
    for (std::size_t self = 0; self < members; ++self) {
      const Judgement judgement = Group(members).judged_by(self);
      BOOST_TEST(judgement.removed.empty());
      BOOST_TEST((judgement.turn == self));
      BOOST_TEST(!judgement.minority);
    }
}

BOOST_AUTO_TEST_CASE(who_falls_silent_is_removed_by_all_others_also_several_at_once) {
  BOOST_TEST(rc::check([] {
    Group group(2 + any(9));
    MemberSet silent;
    const std::size_t most = group.size() - 1;
    for (std::size_t i = 0; i < 1 + any(most); ++i) {
      const std::size_t who = 1 + any(most);
      group.silence(who);
      silent.insert(id(who));
    }
    for (std::size_t self = 0; self < group.size(); ++self)
      if (!silent.contains(id(self))) RC_ASSERT(group.judged_by(self).removed == silent);
  }));
}

BOOST_AUTO_TEST_CASE(one_bad_link_removes_nobody_among_three_or_more_whichever_way_it_is_bad) {
  BOOST_TEST(rc::check([] {
    Group group(3 + any(8));
    const std::size_t a = any(group.size()), b = (a + 1 + any(group.size() - 1)) % group.size();
    group.hears[a][b] = false;
    if (any(2) == 0) group.hears[b][a] = false;
    for (std::size_t self = 0; self < group.size(); ++self) {
      // In a group of more than three, the members that hear both ends outvote each end. In a group of three
      // there are only two voters, so one end alone has no majority.
      RC_ASSERT(group.judged_by(self).removed.empty() || !group.judged_by(self).turn ||
                (group.size() == 3 && (self == a || self == b)));
    }
  }));
}

BOOST_AUTO_TEST_CASE(who_hears_nobody_but_is_heard_is_removed_and_nobody_else) {
  for (std::size_t members = 3; members < 10; ++members) {
    Group group(members);
    for (std::size_t i = 0; i < members; ++i) group.hears[1][i] = false;
    for (std::size_t self = 0; self < members; ++self)
      if (self != 1) BOOST_TEST((group.judged_by(self).removed == MemberSet{id(1)}));
    // The member that hears no other member must conclude that it is probably cut off itself.
    BOOST_TEST(group.judged_by(1).minority);
  }
}

BOOST_AUTO_TEST_CASE(the_smaller_part_of_a_divided_group_knows_that_it_is) {
  Group group(5);
  for (std::size_t a : {0u, 1u})
    for (std::size_t b : {2u, 3u, 4u}) group.hears[a][b] = group.hears[b][a] = false;
  BOOST_TEST(group.judged_by(0).minority);
  BOOST_TEST(!group.judged_by(2).minority);
  BOOST_TEST((group.judged_by(2).removed == MemberSet{id(0), id(1)}));
}

BOOST_AUTO_TEST_CASE(who_misses_most_of_the_others_stays_while_they_are_doubtful_or_have_just_returned) {
  // The last of five members does not hear three others, but the judging member hears these three.
  Group group(5);
  for (std::size_t i : {1u, 2u, 3u}) group.hears[4][i] = false;
  Testimony words = group.seen_by(0);
  BOOST_TEST((judge(group.view, words).removed == MemberSet{id(4)}));
  for (MemberSet* const why : {&words.doubtful, &words.returned}) {
    for (std::size_t i : {1u, 2u, 3u}) why->insert(id(i));
    BOOST_TEST(judge(group.view, words).removed.empty());
    why->clear();
  }
}

BOOST_AUTO_TEST_CASE(of_who_is_heard_and_has_said_nothing_of_this_view_nothing_bad_is_assumed) {
  Group group(4);
  group.hears[0][3] = false;
  Testimony words = group.seen_by(0);
  words.rows.clear();
  BOOST_TEST(judge(group.view, words).removed.empty());
}

BOOST_AUTO_TEST_CASE(the_gone_are_removed_at_once_and_do_not_count_as_a_majority_lost) {
  Group group(5);
  Testimony words = group.seen_by(0);
  for (std::size_t i : {1u, 2u, 3u}) words.gone.insert(id(i));
  const Judgement judgement = judge(group.view, words);
  BOOST_TEST((judgement.removed == words.gone));
  BOOST_TEST(!judgement.minority);
}

BOOST_AUTO_TEST_CASE(who_is_removed_proposes_nothing_but_the_last_one_its_own_leaving) {
  Group group(2);
  Testimony words = group.seen_by(1);
  words.gone.insert(id(1));
  BOOST_TEST(!judge(group.view, words).turn);
  words.gone.insert(id(0));
  BOOST_TEST((judge(group.view, words).turn == 0u));
}

BOOST_AUTO_TEST_CASE(a_joiner_is_taken_in_when_most_have_a_good_link_to_it) {
  Group group(3);
  const MemberId joiner{99};
  const auto joins = [&](std::size_t heard_by, std::size_t hears) {
    Testimony words = group.seen_by(0);
    Row row;
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (i < heard_by) (i == 0 ? words.hears : words.rows[id(i)]).insert(joiner);
      if (i < hears) row.insert(id(i));
    }
    return may_join(group.view, words, joiner, row);
  };
  BOOST_TEST(joins(3, 3));
  BOOST_TEST(joins(2, 3));
  BOOST_TEST(!joins(1, 3));
  BOOST_TEST(!joins(3, 1));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::view
