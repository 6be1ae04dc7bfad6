#include "lib/group/recovery_plan.hpp"

#include <algorithm>
#include <ranges>
#include <string>

#include "dataplane/base/varint.hpp"
#include "dataplane/relay/plan.hpp"

namespace rdmc::group {
namespace {

using relay::BlockMap;
using Bytes = std::vector<std::byte>;

// The limit for the ranges of one message in a state. It makes sure that a state fits into a note.
constexpr std::size_t kMostRanges = 1024;

enum class Told : std::uint8_t { nothing, whole, some };

void put_map(Bytes& out, const BlockMap& map) {
  const auto bytes = map.encode();
  put_varint(out, bytes.size());
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// Reads what put_map has written. After an error, the map is empty.
BlockMap take_map(VarintReader& in, std::uint64_t blocks) {
  const auto map = BlockMap::decode(in.bytes(), blocks);
  if (!map) in.fail();
  return map.value_or(BlockMap(blocks));
}

std::unexpected<Error> wrong(const char* what) {
  return fail(Errc::protocol_error, what);
}

bool is_possible(std::uint64_t blocks) {
  return blocks <= relay::kMaxBlocks;
}

}  // namespace

const SurvivorState::Kept* SurvivorState::find(std::uint64_t message) const {
  if (message < first || message >= end()) return nullptr;
  const Kept& kept = messages[message - first];
  return kept.is_known ? &kept : nullptr;
}

Bytes SurvivorState::encode() const {
  Bytes out;
  put_varint(out, members.size());
  for (const PeerId member : members) put_varint(out, member);
  for (const std::uint64_t number :
       {std::uint64_t{joins ? 1U : 0U}, delivered, first, std::uint64_t{messages.size()}})
    put_varint(out, number);
  for (const Kept& kept : messages) {
    const Told told = !kept.is_known ? Told::nothing : kept.held.is_full() ? Told::whole : Told::some;
    put_varint(out, told);
    if (told != Told::nothing) put_varint(out, kept.bytes);
    if (told == Told::some) put_map(out, kept.held.complement().superset(kMostRanges - 1).complement());
  }
  return out;
}

Result<SurvivorState> SurvivorState::decode(std::span<const std::byte> bytes, std::uint32_t block_bytes) {
  VarintReader in(bytes);
  SurvivorState state;
  for (std::uint64_t count = in.count(); count > 0; --count) {
    state.members.push_back(in.number<PeerId>(UINT32_MAX));
  }
  state.joins = in.number(1) == 1;
  state.delivered = in.number();
  state.first = in.number();
  for (std::uint64_t count = in.count(); count > 0; --count) {
    Kept& kept = state.messages.emplace_back();
    const auto told = in.number<Told>(static_cast<std::uint64_t>(Told::some));
    kept.is_known = told != Told::nothing;
    if (!kept.is_known) continue;
    kept.bytes = in.number();
    const std::uint64_t blocks = relay::block_count(kept.bytes, block_bytes);
    if (!is_possible(blocks)) return wrong("state: a message that is too long");
    kept.held = told == Told::whole ? BlockMap::full(blocks) : take_map(in, blocks);
  }
  if (!in.is_done() || state.delivered < state.first || state.first > UINT64_MAX / 2 ||
      state.delivered > state.end() || (state.joins && (state.delivered > 0 || state.end() > 0)))
    return wrong("state: malformed");
  return state;
}

Bytes RecoveryPlan::encode() const {
  Bytes out;
  put_varint(out, first);
  put_varint(out, lengths.size());
  for (const std::uint64_t bytes : lengths) put_varint(out, bytes);
  put_varint(out, rounds.size());
  for (const relay::Round& round : rounds) {
    put_varint(out, round.source);
    put_varint(out, round.receivers.size());
    for (const std::size_t receiver : round.receivers) put_varint(out, receiver);
    put_map(out, round.blocks);
  }
  return out;
}

Result<RecoveryPlan> RecoveryPlan::decode(std::span<const std::byte> bytes, std::uint32_t members,
                                          std::uint32_t block_bytes) {
  VarintReader in(bytes);
  RecoveryPlan plan;
  plan.first = in.number();
  std::uint64_t row = 0;
  for (std::uint64_t count = in.count(); count > 0 && is_possible(row); --count) {
    plan.lengths.push_back(in.number());
    row += relay::block_count(plan.lengths.back(), block_bytes);
  }
  if (!in.is_good() || !is_possible(row)) return wrong("plan: malformed");
  for (std::uint64_t count = in.count(); count > 0; --count) {
    relay::Round& round = plan.rounds.emplace_back();
    round.source = in.number();
    for (std::uint64_t receivers = in.count(); receivers > 0; --receivers)
      round.receivers.push_back(in.number());
    round.blocks = take_map(in, row);
    const auto is_wrong = [&](std::size_t rank) { return rank >= members || rank == round.source; };
    if (round.source >= members || round.receivers.empty() || round.blocks.count() == 0 ||
        std::ranges::any_of(round.receivers, is_wrong) ||
        std::ranges::adjacent_find(round.receivers, std::greater_equal()) != round.receivers.end())
      return wrong("plan: a round that cannot be");
  }
  if (!in.is_done()) return wrong("plan: malformed");
  return plan;
}

Result<RecoveryPlan> plan_recovery(std::span<const SurvivorState> states) {
  RecoveryPlan plan;
  auto residents = states | std::views::filter([](const SurvivorState& state) { return !state.joins; });
  if (!residents.empty()) plan.first = std::ranges::min(residents, {}, &SurvivorState::delivered).delivered;
  // After the loop, all messages from `end` on have two properties: no member has delivered them, and only
  // the new root may have blocks of them.
  std::uint64_t end = plan.first;
  for (std::size_t rank = 0; rank < states.size(); ++rank) {
    const SurvivorState& state = states[rank];
    if (state.members != states.front().members)
      return fail(Errc::invalid_argument, "survivors do not agree on who they are");
    if (state.joins) continue;
    if (state.first > plan.first) return wrong("a survivor has not kept what others lack");
    end = std::max(end, state.delivered);
    for (std::uint64_t message = end; rank != 0 && message < state.end(); ++message) {
      const auto* const kept = state.find(message);
      if (kept != nullptr && kept->held.count() > 0) end = message + 1;
    }
  }
  std::vector<relay::Holder> holders;
  for (const SurvivorState& state : states) holders.push_back({.held = BlockMap(0), .lacks = !state.joins});
  for (std::uint64_t message = plan.first; message < end; ++message) {
    const SurvivorState::Kept* known = nullptr;
    BlockMap together;
    for (const SurvivorState& state : states) {
      const auto* const kept = state.find(message);
      if (message < state.delivered && (kept == nullptr || !kept->held.is_full()))
        return wrong("a survivor has not kept what it has delivered");
      if (kept == nullptr) continue;
      if (known != nullptr && known->bytes != kept->bytes) return wrong("a message of two lengths");
      together = known == nullptr ? kept->held : together | kept->held;
      known = kept;
    }
    if (known == nullptr || !together.is_full()) break;
    for (std::size_t rank = 0; rank < states.size(); ++rank) {
      const auto* const kept = states[rank].find(message);
      holders[rank].held.append(kept != nullptr ? kept->held : BlockMap(together.blocks()));
    }
    plan.lengths.push_back(known->bytes);
  }
  plan.rounds = relay::plan_rounds(std::move(holders));
  return plan;
}

}  // namespace rdmc::group
