#include "lib/group/confirmation.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>

#include "dataplane/base/random.hpp"

BOOST_AUTO_TEST_SUITE(confirmation_test)

using namespace rdmc;
using namespace rdmc::group;

namespace {

/// All members of a group. On each edge of the tree, reports and verdicts arrive in order. On different
/// edges, they arrive in any order.
struct Members {
  explicit Members(std::uint32_t count) {
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      trees.push_back(Tree::of(Rank{rank}, count));
      parts.emplace_back(rank == 0, trees.back().children.size());
    }
    own.resize(count);
  }
  std::size_t child_number(std::uint32_t rank) const {
    const auto& siblings = trees[value_of(*trees[rank].parent)].children;
    return static_cast<std::size_t>(std::ranges::find(siblings, Rank{rank}) - siblings.begin());
  }
  void say(std::uint32_t rank) {
    if (const auto report = parts[rank].report()) {
      up[rank].push_back(*report);
      parts[rank].told(*report);
    }
    for (std::size_t i = 0; i < trees[rank].children.size(); ++i) {
      if (const auto verdict = parts[rank].verdict_for(i)) {
        down[value_of(trees[rank].children[i])].push_back(*verdict);
        parts[rank].told(i, *verdict);
      }
    }
  }
  void hear(std::uint32_t rank) {
    if (rank == 0) return;
    if (auto& queue = up[rank]; !queue.empty()) {
      RC_ASSERT(
          parts[value_of(*trees[rank].parent)].on_report(child_number(rank), queue.front()).has_value());
      queue.pop_front();
    }
    if (auto& queue = down[rank]; !queue.empty()) {
      RC_ASSERT(parts[rank].on_verdict(queue.front()).has_value());
      queue.pop_front();
    }
  }
  void settle() {
    for (std::size_t round = 0; round < 4 * parts.size() + 4; ++round) {
      for (std::uint32_t rank = 0; rank < parts.size(); ++rank) {
        say(rank);
        hear(rank);
      }
    }
  }

  std::vector<Tree> trees;
  std::vector<Confirmation> parts;
  std::vector<Report> own;
  std::map<std::uint32_t, std::deque<Report>> up;
  std::map<std::uint32_t, std::deque<Verdict>> down;
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_member_but_the_root_is_the_child_of_exactly_its_parent_and_few_have_many) {
  for (std::uint32_t members = 1; members <= 300; ++members) {
    std::map<std::uint32_t, std::uint32_t> parent;
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      const Tree tree = Tree::of(Rank{rank}, members);
      BOOST_REQUIRE(tree.parent.has_value() == (rank != 0));
      BOOST_REQUIRE(tree.children.size() <= std::max<std::size_t>(Tree::kStarMembers - 1, 9));
      for (const Rank child : tree.children) {
        BOOST_REQUIRE(parent.emplace(value_of(child), rank).second);
        BOOST_REQUIRE((Tree::of(child, members).parent == Rank{rank}));
      }
    }
    BOOST_REQUIRE(parent.size() == members - 1);
    for (std::uint32_t rank = 1; rank < members; ++rank) {
      int depth = 0;
      for (std::uint32_t at = rank; at != 0; at = parent.at(at)) BOOST_REQUIRE(++depth <= 9);
    }
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_stable_or_closed_before_all_have_it_and_in_the_end_all_know) {
  BOOST_TEST(rc::check([] {
    const auto count = *rc::gen::inRange(1u, 20u);
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    Members all(count);
    constexpr std::uint64_t kMessages = 20;
    const auto check = [&] {
      const auto has_least = [&](auto field) {
        return std::invoke(field, *std::ranges::min_element(all.own, {}, field));
      };
      const Report gathered = all.parts[0].gathered();
      // A message may have to wait for memory at a member. When every member has delivered this message, the
      // root must know that the message had to wait.
      for (const Report& own : all.own)
        RC_ASSERT(gathered.delivered < own.waited || gathered.waited >= own.waited);
      for (const Confirmation& part : all.parts) {
        RC_ASSERT(part.verdict().stable <= has_least(&Report::delivered));
        if (part.verdict().closed) RC_ASSERT(has_least(&Report::finished) == kMessages);
        if (part.verdict().closed)
          RC_ASSERT(std::ranges::all_of(all.own, [](const Report& r) { return r.closing; }));
      }
    };
    for (int step = 0; step < 600; ++step) {
      const auto rank = static_cast<std::uint32_t>(random.below(count));
      Report& own = all.own[rank];
      // A receiver cannot have more messages than the root has sent.
      const std::uint64_t most = rank == 0 ? kMessages : all.own[0].delivered;
      if (random.below(6) == 0 && rank != 0 && own.delivered < most) own.waited = own.delivered + 1;
      if (random.below(3) == 0 && own.delivered < most) ++own.delivered;
      if (random.below(3) == 0 && own.finished < own.delivered) ++own.finished;
      if (random.below(10) == 0) own.closing = rank != 0 || own.finished == kMessages;
      all.parts[rank].set_own(own);
      all.say(rank);
      all.hear(static_cast<std::uint32_t>(random.below(count)));
      check();
    }
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      all.own[rank] = {.delivered = kMessages,
                       .finished = kMessages,
                       .closing = true,
                       .waited = rank == 0 ? 0 : kMessages};
      all.parts[rank].set_own(all.own[rank]);
    }
    all.settle();
    check();
    for (const Confirmation& part : all.parts) {
      RC_ASSERT((part.verdict() == Verdict{.stable = kMessages, .closed = true}));
      RC_ASSERT(!part.report().has_value());
    }
  }));
}

BOOST_AUTO_TEST_CASE(of_those_who_hold_up_the_group_the_one_with_the_lowest_message_is_reported) {
  const Holder one{.member = Rank{5}, .message = 7}, lower{.member = Rank{6}, .message = 6};
  Confirmation middle(false, 2);
  middle.set_own({.delivered = 8});
  BOOST_REQUIRE(middle.on_report(0, {.delivered = 7, .holder = one}));
  BOOST_REQUIRE(middle.on_report(1, {.delivered = 6}));
  BOOST_TEST((middle.report()->holder == one));
  BOOST_REQUIRE(middle.on_report(1, {.delivered = 6, .holder = lower}));
  BOOST_TEST((middle.report()->holder == lower));
  middle.told(*middle.report());
  BOOST_REQUIRE(middle.on_report(1, {.delivered = 6}));
  BOOST_TEST((middle.report()->holder == one));
  BOOST_REQUIRE(middle.on_report(0, {.delivered = 7}));
  BOOST_TEST(!middle.report()->holder.has_value());
}

BOOST_AUTO_TEST_CASE(a_report_or_verdict_that_takes_something_back_is_refused_by_name) {
  const auto refused = [](const Result<void>& result) {
    return !result && result.error().code == Errc::protocol_error;
  };
  Confirmation root(true, 1);
  BOOST_REQUIRE(root.on_report(0, {.delivered = 5, .finished = 3, .charge = 9}));
  BOOST_TEST(refused(root.on_report(0, {.delivered = 4, .finished = 3, .charge = 9})));
  BOOST_TEST(refused(root.on_report(0, {.delivered = 5, .finished = 2, .charge = 9})));
  BOOST_TEST(refused(root.on_report(0, {.delivered = 5, .finished = 3, .charge = 8})));
  BOOST_TEST(refused(root.on_report(0, {.delivered = 5, .finished = 6, .charge = 9})));
  BOOST_TEST(refused(root.on_report(0, {.delivered = 5, .finished = 3, .charge = 9, .waited = 6})));
  BOOST_TEST(refused(root.on_report(0, {.delivered = 5, .finished = 3, .charge = 9, .waited = UINT64_MAX})));
  BOOST_TEST(refused(root.on_verdict({})));
  Confirmation leaf(false, 0);
  leaf.set_own({.delivered = 4});
  BOOST_TEST(refused(leaf.on_verdict({.stable = 5})));
  BOOST_TEST(refused(leaf.on_verdict({.stable = 4, .closed = true})));
  BOOST_REQUIRE(leaf.on_verdict({.stable = 4}));
  BOOST_TEST(refused(leaf.on_verdict({.stable = 3})));
}

BOOST_AUTO_TEST_SUITE_END()
