// A register whose value is a view. A view is replaced only by the view of the next epoch. Stateless; any
// thread.
#pragma once

#include "controlplane/store/caspaxos/proposer.hpp"
#include "controlplane/view/types.hpp"

namespace rdmc::store {

/// Returns the change that replaces the view of the epoch before by `next`. A value that is not a view stays
/// as it is.
Proposer::Change swap_to(const view::View& next);

/// Returns the view in a register. Its epoch is 0 if nothing was accepted. Errors: corrupt if the value is no
/// view.
Result<view::View> view_in(const Accepted& accepted);

}  // namespace rdmc::store
