// Decides what the survivors do after the sender's death: which survivor sends which blocks in the next
// epoch, or that blocks are lost. The simulator uses the same function. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/bcast-cli/file_shape.hpp"
#include "controlplane/session/coordinator.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

struct RecoveryEpoch {
  session::MemberId source{};
  BlockMap blocks;                         ///< the blocks that the source has and another member lacks
  std::vector<session::MemberId> members;  ///< the source, and all other members that lack blocks
};

/// Plans the next epoch. Its source is the survivor that has the most of the blocks that others lack. Blocks
/// that the source does not have are sent in later epochs. `needed.candidates` must not be empty. Errors:
/// peer_failed if there are blocks that no survivor has. The error's text contains their number.
Result<RecoveryEpoch> plan_recovery(const session::ParametersNeeded& needed, std::uint64_t blocks);

}  // namespace rdmc::bcast
