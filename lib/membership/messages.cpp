#include "lib/membership/messages.hpp"

#include "dataplane/base/varint.hpp"

namespace rdmc::member_groups {
namespace {

enum class Wish : std::uint8_t { none, once, standing };

class Writer {
 public:
  template <typename Number>
  void number(Number value) {
    put_varint(bytes_, static_cast<std::uint64_t>(value));
  }
  void members(const std::vector<MemberId>& members) {
    number(members.size());
    for (const MemberId member : members) number(member);
  }
  void numbers(const std::vector<std::uint64_t>& numbers) {
    number(numbers.size());
    for (const std::uint64_t one : numbers) number(one);
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Reads the fields of a message. After the first error, all results are zero and is_good() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  template <typename Number = std::uint64_t>
  Number number(std::uint64_t most = UINT64_MAX) {
    const auto value = is_good_ ? take_varint(rest_) : std::nullopt;
    is_good_ = value && *value <= most;
    return static_cast<Number>(is_good_ ? *value : 0);
  }
  template <typename Number = std::uint64_t>
  std::vector<Number> numbers() {
    std::vector<Number> numbers;
    for (auto count = number(kMostMembers); is_good_ && count > 0; --count)
      numbers.push_back(number<Number>());
    return numbers;
  }
  std::vector<MemberId> members() { return numbers<MemberId>(); }
  bool is_good() const { return is_good_; }
  bool is_done() const { return is_good_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool is_good_ = true;
};

void put(Writer& to, const GroupState& state) {
  to.number(state.group);
  to.number(state.life);
  to.number(state.stage);
  to.number(state.epoch);
  to.number(state.root);
  to.members(state.participants);
  to.numbers(state.settled_wishes);
  to.members(state.connected);
  to.number(state.first_members);
  to.number(state.options.block_bytes);
  to.number(state.options.small_bytes);
  to.number(state.options.algorithm);
  to.number(state.is_drained ? 1U : 0U);
  to.number(!state.wish ? Wish::none : state.wish_stands ? Wish::standing : Wish::once);
  if (state.wish) to.number(*state.wish);
  to.number(state.wish_number);
}
void put(Writer& to, const State& state) {
  to.number(state.view);
  to.number(state.groups.size());
  for (const GroupState& group : state.groups) put(to, group);
}
void put(Writer& to, const NewEpoch& epoch) {
  to.number(epoch.group);
  to.number(epoch.epoch);
  to.number(epoch.root);
  to.members(epoch.participants);
  for (const std::uint64_t wish : epoch.settled_wishes) to.number(wish);
}
void put(Writer& to, const AllClose& close) {
  to.number(close.group);
  to.number(close.epoch);
}
void put(Writer& to, const NodeWanted& wanted) {
  to.number(wanted.group);
}
void put(Writer& to, const Drain& drain) {
  to.number(drain.group);
  to.number(drain.epoch);
}
void put(Writer& to, const Refusal& refusal) {
  to.number(refusal.group);
  to.number(refusal.life);
  to.number(refusal.is_left_out ? 1U : 0U);
}

GroupState group_state(Reader& from) {
  GroupState state{.group = from.number<GroupNumber>(),
                   .life = from.number(),
                   .stage = from.number<Stage>(static_cast<std::uint64_t>(Stage::failed)),
                   .epoch = from.number(),
                   .root = from.number<MemberId>(),
                   .participants = from.members(),
                   .settled_wishes = from.numbers(),
                   .connected = from.members(),
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

NewEpoch new_epoch(Reader& from) {
  NewEpoch epoch{.group = from.number<GroupNumber>(),
                 .epoch = from.number(),
                 .root = from.number<MemberId>(),
                 .participants = from.members()};
  for (std::size_t i = 0; i < epoch.participants.size(); ++i) epoch.settled_wishes.push_back(from.number());
  return epoch;
}

Message read(std::uint64_t kind, Reader& from) {
  switch (kind) {
    case 0: {
      State state{.view = from.number<Epoch>(), .groups = {}};
      for (auto count = from.number(kMostGroups); from.is_good() && count > 0; --count)
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
  Writer to;
  to.number(message.index());
  std::visit([&](const auto& one) { put(to, one); }, message);
  return to.take();
}

Result<Message> decode(std::span<const std::byte> bytes) {
  Reader from(bytes);
  const auto kind = from.number(std::variant_size_v<Message> - 1);
  Message message = read(kind, from);
  if (!from.is_done()) return fail(Errc::protocol_error, "a member's message about groups is malformed");
  return message;
}

Bytes encode_greeting(const Greeting& greeting) {
  Writer to;
  to.number(greeting.from);
  to.number(greeting.to);
  to.number(greeting.purpose);
  to.number(greeting.group);
  return to.take();
}

Result<Greeting> decode_greeting(std::span<const std::byte> bytes) {
  Reader from(bytes);
  const Greeting greeting{.from = from.number<MemberId>(),
                          .to = from.number<MemberId>(),
                          .purpose = from.number<Purpose>(static_cast<std::uint64_t>(Purpose::node)),
                          .group = from.number<GroupNumber>()};
  if (!from.is_done()) return fail(Errc::protocol_error, "a member's greeting is malformed");
  return greeting;
}

}  // namespace rdmc::member_groups
