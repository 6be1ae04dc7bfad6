#include "lib/socket/group_book.hpp"

namespace rdmc::sockets {

std::optional<std::uint32_t> GroupBook::join() {
  if (members_.size() + 1 >= kMostMembers) return std::nullopt;
  members_[++newest_] = false;
  return newest_;
}

std::vector<std::uint32_t> GroupBook::others() const {
  std::vector<std::uint32_t> all;
  for (const auto& [node, is_in] : members_) all.push_back(node);
  return all;
}

std::optional<GroupBook::View> GroupBook::ready(std::uint32_t node) {
  const auto found = members_.find(node);
  if (found == members_.end() || found->second) return std::nullopt;
  found->second = true;
  return next(Event::joined, node);
}

std::optional<GroupBook::View> GroupBook::lost(std::uint32_t node, bool orderly) {
  return remove(node, orderly ? Event::left : Event::failed);
}

std::optional<GroupBook::View> GroupBook::failed(std::uint32_t reporter, std::uint64_t epoch,
                                                 std::optional<std::uint32_t> blamed) {
  if (epoch != epoch_) return std::nullopt;  // that view has been replaced already
  if (!is_in(reporter)) return std::nullopt;
  if (!blamed) return next(Event{}, std::nullopt);
  const std::uint32_t out = *blamed == kRoot ? reporter : *blamed;
  return is_in(out) ? remove(out, Event::failed) : std::nullopt;
}

bool GroupBook::is_in(std::uint32_t node) const {
  const auto found = members_.find(node);
  return node == kRoot || (found != members_.end() && found->second);
}

std::optional<GroupBook::View> GroupBook::remove(std::uint32_t node, Event event) {
  const auto found = members_.find(node);
  if (found == members_.end()) return std::nullopt;
  const bool was_in = found->second;
  members_.erase(found);
  if (!was_in) return std::nullopt;
  return next(event, node);
}

GroupBook::View GroupBook::next(Event event, std::optional<std::uint32_t> subject) {
  View view{.epoch = ++epoch_, .nodes = {kRoot}, .event = event, .subject = subject};
  for (const auto& [node, is_in] : members_)
    if (is_in) view.nodes.push_back(node);
  return view;
}

}  // namespace rdmc::sockets
