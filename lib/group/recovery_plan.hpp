// What survivors of a group tell its new root about the messages that not everybody has, and what that one
// concludes: which messages are saved, and who sends which of their blocks to whom. The blocks of all
// messages from the first that somebody lacks count in one row. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/relay/block_map.hpp"
#include "dataplane/relay/recovery.hpp"
#include "lib/group/names.hpp"

namespace rdmc::group {

/// A message's blocks: one of no bytes if it is empty.
constexpr std::uint64_t blocks_of(std::uint64_t bytes, std::uint32_t block_bytes) {
  return bytes == 0 ? 1 : (bytes - 1) / block_bytes + 1;
}

/// What one survivor has, told as bytes. All share one block size.
struct SurvivorState {
  struct Kept {
    bool is_known = false;  ///< else the rest says nothing
    std::uint64_t bytes = 0;
    relay::BlockMap held = relay::BlockMap(0);
  };
  std::vector<PeerId> members;  ///< of the successor, as this one was told
  /// It was in no epoch before: it has nothing, and takes only what is sent after the plan's messages.
  bool joins = false;
  /// It has delivered the messages below; a sender, who has all, says which ones it knows to be everywhere.
  std::uint64_t delivered = 0;
  std::uint64_t first = 0;     ///< it has kept nothing below this number: everybody has that
  std::vector<Kept> messages;  ///< from `first` on

  std::uint64_t end() const { return first + messages.size(); }
  /// Nothing if it is not known.
  const Kept* find(std::uint64_t message) const;

  std::vector<std::byte> encode() const;
  /// Errors: protocol_error.
  static Result<SurvivorState> decode(std::span<const std::byte> bytes, std::uint32_t block_bytes);
};

struct RecoveryPlan {
  std::uint64_t first = 0;             ///< the first message that somebody lacks
  std::vector<std::uint64_t> lengths;  ///< of the messages that will be everywhere, from `first` on
  std::vector<relay::Round> rounds;    ///< sources and receivers are ranks of the successor

  /// The first message that is not saved: what was begun of it is void, and its number is free again.
  std::uint64_t end() const { return first + lengths.size(); }

  std::vector<std::byte> encode() const;
  /// Errors: protocol_error.
  static Result<RecoveryPlan> decode(std::span<const std::byte> bytes, std::uint32_t members,
                                     std::uint32_t block_bytes);
};

/// By rank of the successor; the first is the new root's. A message is saved when the survivors hold all of
/// it and all before it, and one besides the new root has some of it: what only that one has it can as well
/// send anew. So what anybody has delivered is saved. Members that join take no part in the rounds. Errors:
/// protocol_error (states that contradict each other), invalid_argument (survivors who do not agree on who
/// they are).
Result<RecoveryPlan> plan_recovery(std::span<const SurvivorState> states);

}  // namespace rdmc::group
