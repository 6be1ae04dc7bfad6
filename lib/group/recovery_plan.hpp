// The states that survivors send to the new root, and the plan that the new root makes from them. The plan
// says which messages are saved, and which member sends which of their blocks to which other member. It
// begins with the first message that some member lacks. It numbers the blocks of all messages from there on
// consecutively. A core without I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/relay/block_map.hpp"
#include "dataplane/relay/plan.hpp"
#include "dataplane/relay/recovery.hpp"
#include "lib/group/names.hpp"

namespace rdmc::group {

/// The state of one survivor, which is sent as bytes. All survivors have the same block size.
struct SurvivorState {
  struct Kept {
    bool is_known = false;  ///< If false, the other fields have no meaning.
    std::uint64_t bytes = 0;
    relay::BlockMap held = relay::BlockMap(0);
  };
  std::vector<PeerId> members;  ///< The members of the new epoch, as this member knows them.
  /// This member was in no epoch before. It has nothing, and it receives only messages after those of the
  /// plan.
  bool joins = false;
  /// This member has delivered the messages below this number. A former root has all messages. For a former
  /// root, this is the number below which its messages are known to be stable.
  std::uint64_t delivered = 0;
  /// This member has kept no messages below this number, because every member has them.
  std::uint64_t first = 0;
  std::vector<Kept> messages;  ///< The messages from `first` on, in order.

  std::uint64_t end() const { return first + messages.size(); }
  /// Returns the message with this number, or null if this member does not know the message.
  const Kept* find(std::uint64_t message) const;

  std::vector<std::byte> encode() const;
  /// Errors: protocol_error if the bytes are malformed.
  static Result<SurvivorState> decode(std::span<const std::byte> bytes, std::uint32_t block_bytes);
};

struct RecoveryPlan {
  std::uint64_t first = 0;  ///< The first message that some member lacks.
  /// The lengths of the messages from `first` on that every member will have.
  std::vector<std::uint64_t> lengths;
  std::vector<relay::Round> rounds;  ///< Sources and receivers are ranks of the new epoch.

  /// The first message that is not saved. Its blocks are void, and its number is used again.
  std::uint64_t end() const { return first + lengths.size(); }

  std::vector<std::byte> encode() const;
  /// Errors: protocol_error if the bytes are malformed.
  static Result<RecoveryPlan> decode(std::span<const std::byte> bytes, std::uint32_t members,
                                     std::uint32_t block_bytes);
};

/// Makes the plan. `states` must be in the order of ranks in the new epoch, so the first one is the new
/// root's. A message is saved if the survivors together hold all of it and of all messages before it, and if
/// a survivor other than the new root has some of it. If only the new root has some of it, the new root can
/// send it again. So every message that any survivor has delivered is saved. Members that join take no part
/// in the rounds. Errors: protocol_error if the states contradict each other, invalid_argument if the
/// survivors do not agree on the members.
Result<RecoveryPlan> plan_recovery(std::span<const SurvivorState> states);

}  // namespace rdmc::group
