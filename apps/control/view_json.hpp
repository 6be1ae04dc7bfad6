// The form in which rdmc_control prints a view. The functions have no state, and any thread may call them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "controlplane/view/types.hpp"

namespace rdmc::control_app {

using Json = nlohmann::ordered_json;

/// Returns the id as 16 hexadecimal digits.
std::string id_text(view::MemberId id);
Json json_of(const std::string& group, const view::View& view);
/// Returns `json` as one line. A name in it may have any bytes, because a peer chooses it.
std::string line_of(const Json& json);

}  // namespace rdmc::control_app
