#include "apps/bcast-cli/recovery.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(recovery_test)

using namespace rdmc;
using namespace rdmc::bcast;

namespace {

BlockMap some_of(std::uint64_t blocks) {
  BlockMap map(blocks);
  for (std::uint64_t block = 0; block < blocks; ++block)
    if (*rc::gen::inRange(0, 3) > 0) map.insert(block);
  return map;
}

session::ParametersNeeded needed_by(const std::vector<BlockMap>& held) {
  session::ParametersNeeded needed;
  for (const auto& map : held) {
    auto& candidate = needed.candidates.emplace_back();
    candidate.member = session::MemberId{static_cast<std::uint32_t>(needed.candidates.size())};
    candidate.state = map.encode();
    candidate.lacks = !map.is_full();
  }
  return needed;
}

}  // namespace

BOOST_AUTO_TEST_CASE(epoch_by_epoch_all_get_what_they_have_together_and_nothing_else_is_sent) {
  BOOST_TEST(rc::check([] {
    const auto blocks = *rc::gen::inRange<std::uint64_t>(1, 200);
    std::vector<BlockMap> held;
    BlockMap together(blocks);
    for (auto count = *rc::gen::inRange(1, 8); count > 0; --count) {
      held.push_back(some_of(blocks));
      together = together | held.back();
    }
    for (std::size_t epochs = 0; std::ranges::any_of(held, [](auto& map) { return !map.is_full(); });
         ++epochs) {
      RC_ASSERT(epochs <= held.size());
      const auto epoch = plan_recovery(needed_by(held), blocks);
      RC_ASSERT(epoch.has_value() == together.is_full());
      if (!epoch) return;
      const auto source = value_of(epoch->source) - 1;
      RC_ASSERT((epoch->blocks & held.at(source)) == epoch->blocks);
      RC_ASSERT(epoch->blocks.count() > 0u);
      BlockMap lacking(blocks);
      std::vector<session::MemberId> members{epoch->source};
      for (std::size_t i = 0; i < held.size(); ++i) {
        lacking = lacking | held[i].complement();
        if (!held[i].is_full() && i != source)
          members.push_back(session::MemberId{static_cast<std::uint32_t>(i + 1)});
      }
      RC_ASSERT((epoch->blocks & lacking) == epoch->blocks);
      RC_ASSERT(epoch->members == members);
      for (auto& map : held)
        if (!map.is_full()) map = map | epoch->blocks;
    }
  }));
}

BOOST_AUTO_TEST_CASE(the_verdict_says_how_many_blocks_are_lost) {
  BlockMap first(10), second(10);
  first.insert({0, 4});
  second.insert({2, 7});
  const auto verdict = plan_recovery(needed_by({first, second}), 10);
  BOOST_REQUIRE(!verdict.has_value());
  BOOST_TEST(verdict.error().what == "the sender died and nobody alive holds 3 of the 10 blocks");
}

BOOST_AUTO_TEST_CASE(a_state_that_makes_no_sense_holds_nothing) {
  auto needed = needed_by({BlockMap::full(3), BlockMap::full(3)});
  for (auto& candidate : needed.candidates) candidate.lacks = true;
  needed.candidates[0].state = session::Bytes(5, std::byte{0xFF});
  const auto epoch = plan_recovery(needed, 3);
  BOOST_REQUIRE(epoch.has_value());
  BOOST_TEST((epoch->source == session::MemberId{2}));
  BOOST_TEST(epoch->blocks.is_full());
}

BOOST_AUTO_TEST_SUITE_END()
