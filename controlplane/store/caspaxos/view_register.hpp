// A register whose value is a view. A view can be replaced only by the view of the next epoch. The functions
// have no state. Any thread may call them.
#pragma once

#include "controlplane/store/caspaxos/proposer.hpp"
#include "controlplane/view/types.hpp"

namespace rdmc::store {

/// Returns the change that replaces the view of the preceding epoch by `next`. If the value of the register
/// is not a view, the change keeps the value.
Proposer::Change swap_to(const view::View& next);

/// Returns the view in a register. Its epoch is 0 if nothing was accepted. Errors: corrupt if the value is no
/// view.
Result<view::View> view_in(const Accepted& accepted);

}  // namespace rdmc::store
