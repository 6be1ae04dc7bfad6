// Compares the binomial pipeline with three things: its published properties (RDMC, section 3), the lower
// bound that an exhaustive search finds, and the figure in the paper.
#include "dataplane/relay/binomial_pipeline.hpp"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

#include "tests/dataplane/relay/plans.hpp"

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(binomial_pipeline_test)
namespace {

std::uint64_t bound(std::uint32_t members, std::uint64_t blocks) {
  std::uint64_t depth = 0;
  while ((std::uint64_t{1} << depth) < members) ++depth;
  return blocks - 1 + depth;
}

BOOST_AUTO_TEST_CASE(the_step_count_is_the_lower_bound) {
  for (std::uint32_t members = 2; members <= 1025; ++members) {
    const Schedule root(Algorithm::binomial_pipeline, Rank{0}, members);
    for (const std::uint64_t blocks : {1ULL, 2ULL, 17ULL, 65'536ULL, 1ULL << 40}) {
      BOOST_REQUIRE_EQUAL(root.steps(blocks), bound(members, blocks));
    }
  }
}

/// Finds the least number of steps after which `members` can hold `blocks`. In one step, each member sends at
/// most one block that it holds, and receives at most one block. The search tries all possibilities. It
/// represents a member by the set of its blocks. Members with the same set are interchangeable.
class Search {
 public:
  Search(std::uint32_t members, std::uint32_t blocks) : full_((1U << blocks) - 1) {
    start_.assign(members - 1, 0);
  }
  std::uint32_t fewest_steps() {
    std::set<std::vector<unsigned>> now{start_};
    for (std::uint32_t steps = 0;; ++steps) {
      if (now.contains(std::vector<unsigned>(start_.size(), full_))) return steps;
      std::set<std::vector<unsigned>> next;
      for (const auto& state : now) {
        auto after = state;
        expand(state, after, 0, 0, next);
      }
      now = std::move(next);
    }
  }

 private:
  /// Tries all possibilities for the receivers from `receiver` on. A receiver gets either nothing, or a block
  /// from a sender that is not yet in `used`.
  void expand(const std::vector<unsigned>& state, std::vector<unsigned>& after, std::size_t receiver,
              unsigned used, std::set<std::vector<unsigned>>& next) const {
    if (receiver == state.size()) {
      auto sorted = after;
      std::ranges::sort(sorted);
      next.insert(std::move(sorted));
      return;
    }
    expand(state, after, receiver + 1, used, next);
    for (std::size_t sender = 0; sender <= state.size(); ++sender) {
      if (sender == receiver || (used >> sender & 1) != 0) continue;
      const unsigned has = sender == state.size() ? full_ : state[sender];
      for (unsigned useful = has & ~state[receiver]; useful != 0; useful &= useful - 1) {
        after[receiver] = state[receiver] | (useful & -useful);
        expand(state, after, receiver + 1, used | 1U << sender, next);
      }
      after[receiver] = state[receiver];
    }
  }

  unsigned full_;
  std::vector<unsigned> start_;
};

BOOST_AUTO_TEST_CASE(no_plan_at_all_takes_fewer_steps) {
  struct Case {
    std::uint32_t members;
    std::uint32_t blocks;
  };
  for (const auto [members, blocks] :
       {Case{2, 1}, {2, 3}, {3, 1}, {3, 2}, {3, 3}, {4, 1}, {4, 2}, {4, 3}, {5, 1}, {5, 2}, {6, 1}}) {
    const Schedule root(Algorithm::binomial_pipeline, Rank{0}, members);
    BOOST_TEST(root.steps(blocks) == Search(members, blocks).fewest_steps());
  }
}

BOOST_AUTO_TEST_CASE(eight_members_and_three_blocks_go_as_the_paper_describes) {
  const auto all = GroupPlan{Algorithm::binomial_pipeline, 8}.all();
  BOOST_TEST(all[0].steps(3) == 5u);
  // The root sends a new block in each step. When it has sent all blocks, it repeats the last one (figure 3,
  // centre and right).
  const std::vector<Transfer> root{{Rank{1}, 0}, {Rank{2}, 1}, {Rank{4}, 2}, {Rank{1}, 2}, {Rank{2}, 2}};
  for (std::uint64_t step = 0; step < root.size(); ++step) {
    BOOST_CHECK(all[0].at(step, 3) == (StepTransfers{root[step], std::nullopt}));
  }
  // In the second step, the first receiver passes its block on. In the third step, four members send. After
  // that, every member has a block.
  BOOST_CHECK(all[1].at(1, 3).send == (Transfer{Rank{3}, 0}));
  const std::vector<Transfer> third{{Rank{4}, 2}, {Rank{5}, 0}, {Rank{6}, 1}, {Rank{7}, 0}};
  for (std::uint32_t rank = 0; rank < 4; ++rank) BOOST_CHECK(all[rank].at(2, 3).send == third[rank]);
  for (std::uint32_t rank = 4; rank < 8; ++rank) BOOST_CHECK(!all[rank].at(2, 3).send);
  // From then on, neighbours exchange the highest block that they hold.
  BOOST_CHECK(all[4].at(3, 3) == (StepTransfers{Transfer{Rank{5}, 2}, Transfer{Rank{5}, 0}}));
  BOOST_CHECK(all[6].at(3, 3) == (StepTransfers{Transfer{Rank{7}, 1}, Transfer{Rank{7}, 0}}));
}

BOOST_AUTO_TEST_CASE(one_block_makes_a_binomial_tree) {
  for (std::uint32_t dimensions = 1; dimensions <= 8; ++dimensions) {
    const auto all = GroupPlan{Algorithm::binomial_pipeline, 1U << dimensions}.all();
    for (std::uint64_t step = 0; step < all[0].steps(1); ++step) {
      const std::uint32_t senders = static_cast<std::uint32_t>(
          std::ranges::count_if(all, [&](const Schedule& one) { return one.at(step, 1).send.has_value(); }));
      BOOST_TEST(senders == 1U << step);
    }
  }
}

BOOST_AUTO_TEST_CASE(in_the_middle_of_a_long_message_every_member_but_one_receives) {
  const auto all = GroupPlan{Algorithm::binomial_pipeline, 9}.all();
  for (std::uint64_t step = kMaxBlocks / 3; step < kMaxBlocks / 3 + 40; ++step) {
    const auto sends = std::ranges::count_if(
        all, [&](const Schedule& one) { return one.at(step, kMaxBlocks).send.has_value(); });
    BOOST_TEST(sends == 8);
  }
}

BOOST_AUTO_TEST_CASE(no_member_has_more_than_two_connections_for_each_dimension_and_two) {
  std::vector<std::uint32_t> sizes{1000, 1536, 2600, 3000, 3500, 4000};
  for (std::uint32_t power = 2; power <= 4096; power *= 2)
    for (const std::uint32_t members : {power - 1, power, power + 1})
      if (members >= 2 && members <= 4096) sizes.push_back(members);
  for (std::uint32_t members = 2; members <= 130; ++members) sizes.push_back(members);
  for (const std::uint32_t members : sizes) {
    std::size_t most = 0;
    for (const Schedule& one : GroupPlan{Algorithm::binomial_pipeline, members}.all())
      most = std::max(most, one.neighbours().size());
    BOOST_REQUIRE_LE(static_cast<double>(most), 2 * std::log2(members) + 2);
    if (std::has_single_bit(members)) BOOST_REQUIRE_EQUAL(most, depth_of(members));
  }
}

/// The hybrid plan, which chains racks, relies on this property.
BOOST_AUTO_TEST_CASE(the_spare_sender_holds_the_block_and_has_nothing_else_to_send) {
  for (std::uint32_t members = 1; members <= 130; ++members) {
    const BinomialPipeline root(Rank{0}, members);
    for (std::uint64_t blocks = 1; blocks <= 24; ++blocks) {
      for (std::uint64_t block = 0; block < blocks; ++block) {
        const BinomialPipeline sender = root.of(Rank{root.spare_sender(block, blocks)});
        const std::uint64_t step = block + root.spare_lag();
        if (step < root.steps(blocks)) BOOST_REQUIRE(!sender.at(step, blocks).send);
        const bool holds =
            value_of(Rank{root.spare_sender(block, blocks)}) == 0 ||
            (block < root.steps(blocks) && sender.at(block, blocks).receive == Transfer{Rank{0}, block});
        BOOST_REQUIRE(holds);
        if (block == 0)
          BOOST_REQUIRE(sender.of(Rank{0}).spare_sender(0, kMaxBlocks) == root.spare_sender(0, blocks));
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
