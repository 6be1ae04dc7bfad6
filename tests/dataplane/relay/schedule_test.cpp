// The schedule against the published properties of the binomial pipeline (RDMC, section 3), against the lower
// bound found by exhaustive search, and against the paper's own picture.
#define BOOST_TEST_MODULE relay_schedule
#include "dataplane/relay/schedule.hpp"

#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <vector>

namespace rdmc::relay {
namespace {

std::uint64_t bound(std::uint32_t members, std::uint64_t blocks) {
  std::uint64_t depth = 0;
  while ((std::uint64_t{1} << depth) < members) ++depth;
  return blocks - 1 + depth;
}

std::vector<Schedule> schedules_of(std::uint32_t members) {
  std::vector<Schedule> all;
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    all.emplace_back(Algorithm::binomial_pipeline, Rank{rank}, members);
  }
  return all;
}

/// The first broken invariant of the group's plan in words; empty when it is clean.
std::string broken_invariant(std::uint32_t members, std::uint64_t blocks) {
  const auto all = schedules_of(members);
  std::vector<std::vector<bool>> held(members, std::vector<bool>(blocks, false));
  held[0].assign(blocks, true);
  std::vector<std::optional<Transfer>> first(members);
  std::vector<std::vector<Rank>> sources;
  std::vector<std::vector<Rank>> destinations;
  for (const Schedule& one : all) {
    sources.push_back(one.sources());
    destinations.push_back(one.destinations());
  }
  const std::uint64_t steps = all[0].steps(blocks);
  std::vector<StepTransfers> now(members);
  for (std::uint64_t step = 0; step < steps; ++step) {
    for (std::uint32_t rank = 0; rank < members; ++rank) now[rank] = all[rank].at(step, blocks);
    std::uint32_t sends = 0;
    std::uint32_t receives = 0;
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      if (const auto& send = now[rank].send) {
        ++sends;
        const std::uint32_t to = value_of(send->peer);
        if (to >= members || to == rank) return "a send to nobody";
        if (now[to].receive != Transfer{Rank{rank}, send->block}) return "send and receive disagree";
        if (!held[rank][send->block]) return "a block is sent before it is held";
        if (held[to][send->block]) return "a block is delivered twice";
        if (send->block + 1 < blocks && step > send->block + all[rank].send_lag())
          return "a send past the lag";
        if (step < send->block) return "a send before the root's";
        if (!std::ranges::binary_search(destinations[rank], send->peer)) return "an undeclared destination";
      }
      if (const auto& receive = now[rank].receive) {
        ++receives;
        if (!first[rank]) first[rank] = receive;
        if (!std::ranges::binary_search(sources[rank], receive->peer)) return "an undeclared source";
      }
    }
    if (sends != receives) return "a receive without its send";
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      if (const auto& receive = now[rank].receive) held[rank][receive->block] = true;
    }
  }
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    if (std::ranges::find(held[rank], false) != held[rank].end()) return "a block is missing";
    if (first[rank] != all[rank].first_receive(blocks)) return "the first receive is another";
    const auto source = all[0].first_source_of(Rank{rank});
    if (source.has_value() != first[rank].has_value()) return "a first source without a receive";
    if (source && *source != first[rank]->peer) return "the first source is another";
  }
  return {};
}

BOOST_AUTO_TEST_CASE(every_invariant_holds_for_each_group_to_130_and_each_message_to_24_blocks) {
  for (std::uint32_t members = 1; members <= 130; ++members) {
    for (std::uint64_t blocks = 1; blocks <= 24; ++blocks) {
      BOOST_REQUIRE_MESSAGE(
          broken_invariant(members, blocks).empty(),
          members << " members, " << blocks << " blocks: " << broken_invariant(members, blocks));
    }
  }
}

BOOST_AUTO_TEST_CASE(every_invariant_holds_for_samples_of_large_groups_and_long_messages) {
  struct Sample {
    std::uint32_t members;
    std::uint64_t blocks;
  };
  for (const auto [members, blocks] : {Sample{2, 300},
                                       {3, 300},
                                       {7, 257},
                                       {15, 300},
                                       {16, 299},
                                       {17, 300},
                                       {31, 100},
                                       {100, 300},
                                       {127, 64},
                                       {255, 40},
                                       {256, 41},
                                       {257, 42},
                                       {511, 1},
                                       {512, 9},
                                       {513, 10},
                                       {700, 33},
                                       {1023, 30},
                                       {1024, 30}}) {
    BOOST_REQUIRE_MESSAGE(
        broken_invariant(members, blocks).empty(),
        members << " members, " << blocks << " blocks: " << broken_invariant(members, blocks));
  }
}

BOOST_AUTO_TEST_CASE(the_step_count_is_the_lower_bound) {
  for (std::uint32_t members = 2; members <= 1025; ++members) {
    const Schedule root(Algorithm::binomial_pipeline, Rank{0}, members);
    for (const std::uint64_t blocks : {1ULL, 2ULL, 17ULL, 65'536ULL, 1ULL << 40}) {
      BOOST_REQUIRE_EQUAL(root.steps(blocks), bound(members, blocks));
    }
  }
}

/// Can `members` hold `blocks` after `steps`, if in a step each sends at most one block it holds and receives
/// at most one? All possibilities are tried; a member is its set of blocks, and receivers are
/// interchangeable.
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
  /// Member by member: `receiver` gets nothing, or a block from a sender that `used` does not name yet.
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
  const auto all = schedules_of(8);
  BOOST_TEST(all[0].steps(3) == 5u);
  // The root sends a new block each step, then keeps sending the last (figure 3, centre and right).
  const std::vector<Transfer> root{{Rank{1}, 0}, {Rank{2}, 1}, {Rank{4}, 2}, {Rank{1}, 2}, {Rank{2}, 2}};
  for (std::uint64_t step = 0; step < root.size(); ++step) {
    BOOST_CHECK(all[0].at(step, 3) == (StepTransfers{root[step], std::nullopt}));
  }
  // In the second step the first receiver hands its block on; in the third four members send and all have a
  // block.
  BOOST_CHECK(all[1].at(1, 3).send == (Transfer{Rank{3}, 0}));
  const std::vector<Transfer> third{{Rank{4}, 2}, {Rank{5}, 0}, {Rank{6}, 1}, {Rank{7}, 0}};
  for (std::uint32_t rank = 0; rank < 4; ++rank) BOOST_CHECK(all[rank].at(2, 3).send == third[rank]);
  for (std::uint32_t rank = 4; rank < 8; ++rank) BOOST_CHECK(!all[rank].at(2, 3).send);
  // Then neighbours exchange the highest block that they hold.
  BOOST_CHECK(all[4].at(3, 3) == (StepTransfers{Transfer{Rank{5}, 2}, Transfer{Rank{5}, 0}}));
  BOOST_CHECK(all[6].at(3, 3) == (StepTransfers{Transfer{Rank{7}, 1}, Transfer{Rank{7}, 0}}));
}

BOOST_AUTO_TEST_CASE(one_block_makes_a_binomial_tree) {
  for (std::uint32_t dimensions = 1; dimensions <= 8; ++dimensions) {
    const auto all = schedules_of(1U << dimensions);
    for (std::uint64_t step = 0; step < all[0].steps(1); ++step) {
      const std::uint32_t senders = static_cast<std::uint32_t>(
          std::ranges::count_if(all, [&](const Schedule& one) { return one.at(step, 1).send.has_value(); }));
      BOOST_TEST(senders == 1U << step);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_group_of_one_takes_no_step_and_knows_nobody) {
  const Schedule alone(Algorithm::binomial_pipeline, Rank{0}, 1);
  BOOST_TEST(alone.steps(1) == 0u);
  BOOST_TEST(alone.steps(1000) == 0u);
  BOOST_TEST(alone.neighbours().empty());
  BOOST_CHECK(!alone.first_receive(7));
  BOOST_CHECK(!alone.first_source_of(Rank{0}));
}

BOOST_AUTO_TEST_CASE(the_first_source_never_depends_on_the_block_count_and_the_block_only_by_the_cap) {
  for (std::uint32_t members = 2; members <= 130; ++members) {
    for (const Schedule& one : schedules_of(members)) {
      const auto longest = one.first_receive(Schedule::kMaxBlocks);
      for (std::uint64_t blocks = 1; blocks <= 12; ++blocks) {
        std::optional<Transfer> seen;
        for (std::uint64_t step = 0; !seen && step < one.steps(blocks); ++step)
          seen = one.at(step, blocks).receive;
        BOOST_REQUIRE_EQUAL(seen.has_value(), !one.is_root());
        if (!seen) continue;
        BOOST_REQUIRE(seen->peer == longest->peer);
        BOOST_REQUIRE_EQUAL(seen->block, std::min(longest->block, blocks - 1));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(sources_and_destinations_mirror_each_other_and_grow_as_the_logarithm) {
  for (std::uint32_t members = 2; members <= 130; ++members) {
    const auto all = schedules_of(members);
    for (const Schedule& one : all) {
      for (const Rank to : one.destinations()) {
        BOOST_REQUIRE(std::ranges::binary_search(all[value_of(to)].sources(), one.rank()));
      }
      for (const Rank from : one.sources()) {
        BOOST_REQUIRE(std::ranges::binary_search(all[value_of(from)].destinations(), one.rank()));
      }
      BOOST_REQUIRE_LE(one.neighbours().size(), 2 * static_cast<std::size_t>(std::bit_width(members)) + 1);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_next_receive_from_a_source_is_what_a_walk_over_all_steps_finds) {
  for (std::uint32_t members = 2; members <= 40; ++members) {
    for (const Schedule& one : schedules_of(members)) {
      for (const std::uint64_t blocks : {1ULL, 2ULL, 5ULL, 13ULL, 50ULL}) {
        for (const Rank source : one.neighbours()) {
          std::uint64_t asked = 0;
          for (std::uint64_t step = 0; step < one.steps(blocks); ++step) {
            const auto receive = one.at(step, blocks).receive;
            if (!receive || receive->peer != source) continue;
            const auto found = one.next_receive_from(source, asked, blocks);
            BOOST_REQUIRE(found.has_value());
            BOOST_REQUIRE_EQUAL(*found, step);
            asked = step + 1;
          }
          BOOST_REQUIRE(!one.next_receive_from(source, asked, blocks));
        }
        BOOST_REQUIRE(!one.next_receive_from(one.rank(), 0, blocks));
      }
    }
  }
}

/// The slots with which, in step, no member ever waits for one: block b may come in step t only if no block
/// of its slot, or before that, moves at this member in step t or later.
std::uint64_t slots_needed(std::uint32_t members, std::uint64_t blocks) {
  std::uint64_t most = 1;
  for (const Schedule& one : schedules_of(members)) {
    if (one.is_root()) continue;
    std::uint64_t lowest_ahead = blocks;  // over steps >= the one looked at
    for (std::uint64_t step = one.steps(blocks); step-- > 0;) {
      const auto [send, receive] = one.at(step, blocks);
      if (send) lowest_ahead = std::min(lowest_ahead, send->block);
      if (!receive) continue;
      lowest_ahead = std::min(lowest_ahead, receive->block);
      most = std::max(most, receive->block - lowest_ahead + 1);
    }
  }
  return most;
}

BOOST_AUTO_TEST_CASE(the_least_ring_is_exactly_what_the_plan_needs) {
  for (std::uint32_t members = 1; members <= 130; ++members) {
    const Schedule root(Algorithm::binomial_pipeline, Rank{0}, members);
    const std::uint64_t dimensions = static_cast<std::uint64_t>(std::bit_width(members));
    BOOST_TEST(root.minimum_slots() == slots_needed(members, 6 * dimensions + 5), members << " members");
  }
  for (const std::uint32_t members : {255U, 256U, 257U, 1000U}) {
    const Schedule root(Algorithm::binomial_pipeline, Rank{0}, members);
    BOOST_TEST(root.minimum_slots() == slots_needed(members, 50), members << " members");
  }
}

BOOST_AUTO_TEST_CASE(terabytes_of_blocks_are_planned_without_walking_there) {
  constexpr std::uint64_t kBlocks = std::uint64_t{5'000'000} << 20;
  const auto all = schedules_of(9);
  const std::uint64_t start = kBlocks / 3;
  for (std::uint64_t step = start; step < start + 40; ++step) {
    std::uint32_t moved = 0;
    for (const Schedule& one : all) {
      const auto send = one.at(step, kBlocks).send;
      if (!send) continue;
      ++moved;
      BOOST_REQUIRE(all[value_of(send->peer)].at(step, kBlocks).receive ==
                    (Transfer{one.rank(), send->block}));
      BOOST_REQUIRE(send->block <= step && send->block + one.send_lag() >= step);
    }
    BOOST_TEST(moved == 8u);  // every member but one receives: the pipeline is full
  }
  BOOST_TEST(all[0].at(kBlocks + 1, kBlocks).send->block == kBlocks - 1);
}

}  // namespace
}  // namespace rdmc::relay
