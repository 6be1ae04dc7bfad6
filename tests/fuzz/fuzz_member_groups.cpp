// Fuzzes the messages between members about the groups of a membership. The first byte selects the parser for
// the other bytes. An accepted message must keep to the limits, and must mean the same after it is written
// and read again.
#include <array>
#include <variant>

#include "lib/membership/messages.hpp"
#include "tests/fuzz/input.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;
using namespace rdmc::member_groups;

namespace {

void message(fuzz::Bytes bytes) {
  const auto read = decode(bytes);
  if (refused(read)) return;
  const auto again = decode(encode(*read));
  require(again.has_value() && *again == *read);
  if (const auto* const state = std::get_if<State>(&*read)) {
    require(state->groups.size() <= kMostGroups);
    for (const GroupState& group : state->groups)
      require(group.participants.size() <= kMostMembers && group.connected.size() <= kMostMembers);
  } else if (const auto* const epoch = std::get_if<NewEpoch>(&*read)) {
    require(epoch->participants.size() <= kMostMembers);
  }
}

void greeting(fuzz::Bytes bytes) {
  const auto read = decode_greeting(bytes);
  if (refused(read)) return;
  const auto again = decode_greeting(encode_greeting(*read));
  require(again.has_value() && *again == *read);
}

constexpr std::array kReaders{message, greeting};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_first_byte(kReaders, data, size);
}
