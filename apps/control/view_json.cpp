#include "apps/control/view_json.hpp"

#include <fmt/format.h>

namespace rdmc::control_app {

std::string id_text(view::MemberId id) {
  return fmt::format("{:016x}", value_of(id));
}

Json json_of(const std::string& group, const view::View& view) {
  Json members = Json::array();
  for (const view::Member& member : view.members)
    members.push_back({{"id", id_text(member.id)},
                       {"name", member.name},
                       {"address", to_string(member.address)},
                       {"fabrics", member.fabrics},
                       {"since", value_of(member.since)}});
  return {{"group", group}, {"epoch", value_of(view.epoch)}, {"members", std::move(members)}};
}

}  // namespace rdmc::control_app
