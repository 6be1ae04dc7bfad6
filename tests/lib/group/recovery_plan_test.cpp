#include "lib/group/recovery_plan.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(recovery_plan_test)

using namespace rdmc;
using namespace rdmc::group;
using relay::BlockMap;

namespace {

constexpr std::uint32_t kBlock = 100;

std::uint64_t up_to(std::uint64_t most) {
  return *rc::gen::inRange<std::uint64_t>(0, most + 1);
}

BlockMap some_of(std::uint64_t blocks) {
  BlockMap map(blocks);
  for (std::uint64_t block = 0; block < blocks; ++block)
    if (up_to(2) > 0) map.insert(block);
  return map;
}

/// Returns the states of the survivors of a group. The group has sent messages of these lengths.
std::vector<SurvivorState> some_states(const std::vector<std::uint64_t>& lengths) {
  std::vector<SurvivorState> states(1 + up_to(4));
  const std::uint64_t stable = up_to(lengths.size());
  for (SurvivorState& state : states) {
    state.members = {PeerId{3}, PeerId{1}};
    state.first = up_to(stable);
    state.delivered = stable + up_to(lengths.size() - stable);
    for (std::uint64_t message = state.first; message < lengths.size(); ++message) {
      const std::uint64_t blocks = relay::block_count(lengths[message], kBlock);
      if (message < state.delivered)
        state.messages.push_back({true, lengths[message], BlockMap::full(blocks)});
      else if (up_to(3) > 0)
        state.messages.push_back({true, lengths[message], some_of(blocks)});
      else
        state.messages.push_back({});
    }
  }
  return states;
}

std::vector<std::uint64_t> some_lengths() {
  std::vector<std::uint64_t> lengths(up_to(6));
  for (std::uint64_t& bytes : lengths) bytes = up_to(5 * kBlock);
  return lengths;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_anybody_has_delivered_is_saved_and_after_the_rounds_everybody_has_all_that_is) {
  BOOST_TEST(rc::check([] {
    const auto lengths = some_lengths();
    const auto states = some_states(lengths);
    const auto plan = plan_recovery(states);
    RC_ASSERT(plan.has_value());
    std::uint64_t row = 0;
    for (std::size_t i = 0; i < plan->lengths.size(); ++i) {
      RC_ASSERT(plan->lengths[i] == lengths[plan->first + i]);
      row += relay::block_count(plan->lengths[i], kBlock);
    }
    for (std::size_t rank = 0; rank < states.size(); ++rank) {
      RC_ASSERT(states[rank].delivered >= plan->first);
      RC_ASSERT(states[rank].delivered <= plan->end());
      BlockMap has(0);
      for (std::uint64_t message = plan->first; message < plan->end(); ++message) {
        const auto* const kept = states[rank].find(message);
        has.append(kept != nullptr ? kept->held : BlockMap(relay::block_count(lengths[message], kBlock)));
      }
      for (const relay::Round& round : plan->rounds) {
        RC_ASSERT(round.blocks.blocks() == row);
        if (round.source == rank) RC_ASSERT((has & round.blocks) == round.blocks);
      }
      for (const relay::Round& round : plan->rounds) {
        if (std::ranges::find(round.receivers, rank) != round.receivers.end()) has = has | round.blocks;
      }
      RC_ASSERT(has.is_full());
    }
    // The plan ends before the next message for one of two reasons: the survivors together lack some of its
    // blocks, or only the new root has blocks of this message and of later ones.
    if (plan->end() == lengths.size()) return;
    BlockMap together(relay::block_count(lengths[plan->end()], kBlock));
    bool others = false;
    for (const SurvivorState& state : states) {
      const auto* const kept = state.find(plan->end());
      if (kept != nullptr) together = together | kept->held;
      for (std::uint64_t later = plan->end(); &state != states.data() && later < state.end(); ++later)
        others = others || (state.find(later) != nullptr && state.find(later)->held.count() > 0);
    }
    RC_ASSERT(!together.is_full() || !others);
  }));
}

BOOST_AUTO_TEST_CASE(states_that_contradict_each_other_are_refused) {
  const SurvivorState::Kept whole{true, 150, BlockMap::full(2)}, other{true, 50, BlockMap::full(1)};
  const auto code_of = [](std::vector<SurvivorState> states) {
    const auto plan = plan_recovery(states);
    BOOST_REQUIRE(!plan);
    return plan.error().code;
  };
  const auto is = [](Errc a, Errc b) { return a == b; };
  BOOST_TEST(is(code_of({{.members = {PeerId{1}}}, {.members = {PeerId{2}}}}), Errc::invalid_argument));
  BOOST_TEST(is(code_of({{.delivered = 0}, {.delivered = 2, .first = 1, .messages = {whole}}}),
                Errc::protocol_error));
  BOOST_TEST(is(code_of({{.delivered = 0, .messages = {{}}}, {.delivered = 1, .messages = {{}}}}),
                Errc::protocol_error));
  BOOST_TEST(is(code_of({{.delivered = 1, .messages = {whole}}, {.delivered = 0, .messages = {other}}}),
                Errc::protocol_error));
}

BOOST_AUTO_TEST_CASE(states_and_plans_survive_the_wire_and_any_bytes_are_refused_or_read) {
  BOOST_TEST(rc::check([] {
    const auto states = some_states(some_lengths());
    for (const SurvivorState& state : states) {
      const auto read = SurvivorState::decode(state.encode(), kBlock);
      RC_ASSERT(read.has_value());
      RC_ASSERT(read->encode() == state.encode());
    }
    const auto plan = plan_recovery(states);
    auto bytes = plan->encode();
    const auto read = RecoveryPlan::decode(bytes, static_cast<std::uint32_t>(states.size()), kBlock);
    RC_ASSERT(read.has_value());
    RC_ASSERT(read->encode() == bytes);
    bytes[up_to(bytes.size() - 1)] = static_cast<std::byte>(up_to(255));
    if (const auto wrong = RecoveryPlan::decode(bytes, 2, kBlock)) RC_ASSERT(wrong->encode() == bytes);
    bytes = states.front().encode();
    bytes[up_to(bytes.size() - 1)] = static_cast<std::byte>(up_to(255));
    (void)SurvivorState::decode(bytes, kBlock);
    bytes.resize(up_to(bytes.size()));
    (void)SurvivorState::decode(bytes, kBlock);
  }));
}

BOOST_AUTO_TEST_SUITE_END()
