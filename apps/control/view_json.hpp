// The form in which rdmc_control prints a view. The functions have no state, and any thread may call them.
#pragma once

#include <string>

#include "apps/program/output.hpp"
#include "controlplane/view/types.hpp"

namespace rdmc::control_app {

/// Returns the id as 16 hexadecimal digits.
std::string id_text(view::MemberId id);
Json json_of(const std::string& group, const view::View& view);

}  // namespace rdmc::control_app
