// A view as rdmc_control prints it. Stateless; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "controlplane/view/types.hpp"

namespace rdmc::control_app {

using Json = nlohmann::ordered_json;

/// 16 hexadecimal digits.
std::string id_text(view::MemberId id);
Json json_of(const std::string& group, const view::View& view);
/// Names are what a peer says they are: any bytes.
std::string line_of(const Json& json);

}  // namespace rdmc::control_app
