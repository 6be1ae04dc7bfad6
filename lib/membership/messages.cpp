#include "lib/membership/messages.hpp"

#include "dataplane/base/varint.hpp"

namespace rdmc::member_groups {
namespace {

enum class Wish : std::uint8_t { none, once, standing };

template <typename Number>
void put_list(Bytes& to, const std::vector<Number>& numbers) {
  put_varint(to, numbers.size());
  for (const Number one : numbers) put_varint(to, one);
}

template <typename Number = std::uint64_t>
std::vector<Number> list(VarintReader& from) {
  std::vector<Number> numbers;
  for (auto count = from.count(kMostMembers); from.is_good() && count > 0; --count)
    numbers.push_back(from.number<Number>());
  return numbers;
}

void put(Bytes& to, const GroupState& state) {
  put_varint(to, state.group);
  put_varint(to, state.life);
  put_varint(to, state.stage);
  put_varint(to, state.epoch);
  put_varint(to, state.root);
  put_list(to, state.participants);
  put_list(to, state.settled_wishes);
  put_list(to, state.connected);
  put_varint(to, state.first_members);
  put_varint(to, state.options.block_bytes);
  put_varint(to, state.options.small_bytes);
  put_varint(to, state.options.algorithm);
  put_varint(to, state.is_drained ? 1U : 0U);
  put_varint(to, !state.wish ? Wish::none : state.wish_stands ? Wish::standing : Wish::once);
  if (state.wish) put_varint(to, *state.wish);
  put_varint(to, state.wish_number);
}
void put(Bytes& to, const State& state) {
  put_varint(to, state.view);
  put_varint(to, state.groups.size());
  for (const GroupState& group : state.groups) put(to, group);
}
void put(Bytes& to, const NewEpoch& epoch) {
  put_varint(to, epoch.group);
  put_varint(to, epoch.epoch);
  put_varint(to, epoch.root);
  put_list(to, epoch.participants);
  for (const std::uint64_t wish : epoch.settled_wishes) put_varint(to, wish);
}
void put(Bytes& to, const AllClose& close) {
  put_varint(to, close.group);
  put_varint(to, close.epoch);
}
void put(Bytes& to, const NodeWanted& wanted) {
  put_varint(to, wanted.group);
}
void put(Bytes& to, const Drain& drain) {
  put_varint(to, drain.group);
  put_varint(to, drain.epoch);
}
void put(Bytes& to, const Refusal& refusal) {
  put_varint(to, refusal.group);
  put_varint(to, refusal.life);
  put_varint(to, refusal.is_left_out ? 1U : 0U);
}

GroupState group_state(VarintReader& from) {
  GroupState state{.group = from.number<GroupNumber>(),
                   .life = from.number(),
                   .stage = from.number<Stage>(static_cast<std::uint64_t>(Stage::failed)),
                   .epoch = from.number(),
                   .root = from.number<MemberId>(),
                   .participants = list<MemberId>(from),
                   .settled_wishes = list(from),
                   .connected = list<MemberId>(from),
                   .first_members = from.number(),
                   .options = {.block_bytes = from.number<std::uint32_t>(UINT32_MAX),
                               .small_bytes = from.number<std::uint32_t>(UINT32_MAX),
                               .algorithm = from.number<std::uint32_t>(UINT32_MAX)},
                   .is_drained = from.number(1) == 1};
  const auto wish = from.number<Wish>(static_cast<std::uint64_t>(Wish::standing));
  if (wish != Wish::none) state.wish = from.number<MemberId>();
  state.wish_stands = wish == Wish::standing;
  state.wish_number = from.number();
  return state;
}

NewEpoch new_epoch(VarintReader& from) {
  NewEpoch epoch{.group = from.number<GroupNumber>(),
                 .epoch = from.number(),
                 .root = from.number<MemberId>(),
                 .participants = list<MemberId>(from)};
  for (std::size_t i = 0; i < epoch.participants.size(); ++i) epoch.settled_wishes.push_back(from.number());
  return epoch;
}

Message read(std::uint64_t kind, VarintReader& from) {
  switch (kind) {
    case 0: {
      State state{.view = from.number<Epoch>(), .groups = {}};
      for (auto count = from.count(kMostGroups); from.is_good() && count > 0; --count)
        state.groups.push_back(group_state(from));
      return state;
    }
    case 1: return new_epoch(from);
    case 2: return AllClose{.group = from.number<GroupNumber>(), .epoch = from.number()};
    case 3: return NodeWanted{.group = from.number<GroupNumber>()};
    case 4: return Drain{.group = from.number<GroupNumber>(), .epoch = from.number()};
    default:
      return Refusal{
          .group = from.number<GroupNumber>(), .life = from.number(), .is_left_out = from.number(1) == 1};
  }
}

}  // namespace

Bytes encode(const Message& message) {
  Bytes to;
  put_varint(to, message.index());
  std::visit([&](const auto& one) { put(to, one); }, message);
  return to;
}

Result<Message> decode(std::span<const std::byte> bytes) {
  VarintReader from(bytes);
  const auto kind = from.number(std::variant_size_v<Message> - 1);
  Message message = read(kind, from);
  if (!from.is_done()) return fail(Errc::protocol_error, "a member's message about groups is malformed");
  return message;
}

Bytes encode_greeting(const Greeting& greeting) {
  Bytes to;
  put_varint(to, greeting.from);
  put_varint(to, greeting.to);
  put_varint(to, greeting.purpose);
  put_varint(to, greeting.group);
  return to;
}

Result<Greeting> decode_greeting(std::span<const std::byte> bytes) {
  VarintReader from(bytes);
  const Greeting greeting{.from = from.number<MemberId>(),
                          .to = from.number<MemberId>(),
                          .purpose = from.number<Purpose>(static_cast<std::uint64_t>(Purpose::node)),
                          .group = from.number<GroupNumber>()};
  if (!from.is_done()) return fail(Errc::protocol_error, "a member's greeting is malformed");
  return greeting;
}

}  // namespace rdmc::member_groups
