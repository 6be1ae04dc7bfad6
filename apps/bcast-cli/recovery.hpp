// What survivors do about the blocks after the sender's death: which of them sends what in the next epoch, or
// the verdict that a block is lost. The simulator decides by the same function. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/bcast-cli/file_shape.hpp"
#include "controlplane/session/coordinator.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

struct RecoveryEpoch {
  session::MemberId source{};
  BlockMap blocks;                         ///< that somebody lacks and the source holds
  std::vector<session::MemberId> members;  ///< the source, and all others who lack blocks
};

/// Of those who hold blocks that somebody lacks the one with most of them is the source of the next epoch;
/// what it does not hold is the matter of later ones. `needed.candidates` is not empty. Errors: peer_failed,
/// when nobody holds some of them, saying how many.
Result<RecoveryEpoch> plan_recovery(const session::ParametersNeeded& needed, std::uint64_t blocks);

}  // namespace rdmc::bcast
