#include "dataplane/relay/recovery.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(recovery_test)

using namespace rdmc::relay;

namespace {

std::vector<Holder> some_holders(std::uint64_t blocks) {
  std::vector<Holder> holders;
  for (auto count = *rc::gen::inRange(1, 9); count > 0; --count) {
    Holder& holder = holders.emplace_back(BlockMap(blocks), *rc::gen::inRange(0, 4) > 0);
    for (std::uint64_t block = 0; block < blocks; ++block)
      if (*rc::gen::inRange(0, 3) > 0) holder.held.insert(block);
  }
  return holders;
}

}  // namespace

BOOST_AUTO_TEST_CASE(in_all_rounds_together_each_block_that_somebody_lacks_is_sent_once_to_all_who_lack_it) {
  BOOST_TEST(rc::check([] {
    const auto blocks = *rc::gen::inRange<std::uint64_t>(1, 100);
    const auto holders = some_holders(blocks);
    BlockMap lacking(blocks), held(blocks), sent(blocks);
    for (const Holder& holder : holders) {
      held = held | holder.held;
      if (holder.lacks) lacking = lacking | holder.held.complement();
    }
    RC_ASSERT(lost_blocks(holders) == (lacking & held.complement()));
    const auto rounds = plan_rounds(holders);
    RC_ASSERT(rounds.size() <= holders.size());
    for (const Round& round : rounds) {
      RC_ASSERT(round.blocks.count() > 0u);
      RC_ASSERT((round.blocks & sent).count() == 0u);
      RC_ASSERT((round.blocks & holders[round.source].held) == round.blocks);
      sent = sent | round.blocks;
      std::vector<std::size_t> receivers;
      for (std::size_t i = 0; i < holders.size(); ++i) {
        const bool lacks = (holders[i].held & round.blocks) != round.blocks;
        if (holders[i].lacks && lacks) receivers.push_back(i);
      }
      RC_ASSERT(round.receivers == receivers);
    }
    RC_ASSERT(sent == (lacking & held));
  }));
}

BOOST_AUTO_TEST_CASE(whoever_holds_most_of_what_is_lacking_sends_first) {
  BlockMap few(10), many(10), none(10);
  few.insert({0, 3});
  many.insert({2, 9});
  const auto round = next_round(std::vector<Holder>{{few, true}, {many, true}, {none, true}});
  BOOST_TEST(round.source == 1u);
  BOOST_TEST((round.blocks == many));
  BOOST_TEST((round.receivers == std::vector<std::size_t>{0, 2}));
}

BOOST_AUTO_TEST_SUITE_END()
