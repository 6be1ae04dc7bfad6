#include "controlplane/store/view_map.hpp"

namespace rdmc::store {

view::SwapResult ViewMap::apply(const SwapCommand& command) {
  const view::View current = read(command.group);
  // Proposed twice, as after an answer that was lost.
  if (current == command.next) return {true, current};
  if (command.next.epoch != view::next(current.epoch)) return {false, current};
  views_[command.group] = command.next;
  return {true, command.next};
}

view::View ViewMap::read(const std::string& group) const {
  const auto found = views_.find(group);
  return found == views_.end() ? view::View{} : found->second;
}

std::vector<view::GroupView> ViewMap::list() const {
  std::vector<view::GroupView> all;
  for (const auto& [group, view] : views_) all.push_back({group, view});
  return all;
}

}  // namespace rdmc::store
