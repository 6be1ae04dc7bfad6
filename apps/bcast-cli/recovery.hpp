// The choice of the survivors after the sender's death: which survivor sends which blocks in the next epoch,
// or the verdict that blocks are lost. The simulator uses the same function. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/bcast-cli/file_shape.hpp"
#include "controlplane/session/coordinator.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

struct RecoveryEpoch {
  session::MemberId source{};
  BlockMap blocks;                         ///< the blocks that the source holds and another member lacks
  std::vector<session::MemberId> members;  ///< the source, and all others that lack blocks
};

/// The source of the next epoch is the survivor that holds the most of the blocks that others lack. Blocks
/// that it does not hold are left to later epochs. `needed.candidates` must not be empty. Errors: peer_failed
/// if no survivor holds some of the blocks; the text says how many.
Result<RecoveryEpoch> plan_recovery(const session::ParametersNeeded& needed, std::uint64_t blocks);

}  // namespace rdmc::bcast
