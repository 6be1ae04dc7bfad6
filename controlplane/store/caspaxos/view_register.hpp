// A register whose value is a view, replaced only by the view of the next epoch. Stateless; any thread.
#pragma once

#include "controlplane/store/caspaxos/proposer.hpp"
#include "controlplane/view/types.hpp"

namespace rdmc::store {

/// Puts `next` in the place of the view of the epoch before. What is no view stays as it is.
Proposer::Change swap_to(const view::View& next);

/// Epoch 0 if nothing was accepted. Errors: corrupt.
Result<view::View> view_in(const Accepted& accepted);

}  // namespace rdmc::store
