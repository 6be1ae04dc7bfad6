// Large messages that members on the root's host look at where they lie. They take the way of small messages:
// down the tree, in the root's order; only their bytes stay where they are.
#include "lib/group/group.hpp"

namespace rdmc::group {

std::optional<std::uint64_t> Group::try_show(std::span<const std::byte> bytes) {
  if (!config_.read_only || !may_send() || bytes.empty() || edges_.empty()) return std::nullopt;
  std::optional<fabric::MappingOffer> offer;  // the same for all: they are told where it lies in our memory
  for (const Edge& edge : edges_) {
    offer = edge.link == nullptr ? std::nullopt : edge.link->offer_mapping(bytes);
    if (!offer) return std::nullopt;
  }
  const std::uint64_t number = next_number_++;
  drop_arena_message(number);
  const bool first = smalls_.empty();
  auto& small = smalls_.add(
      {.number = number, .view = MappedMessage{.message = number, .offer = *offer, .bytes = bytes.size()}},
      false);
  small.forwarded = first && forward(small);
  return number;
}

Result<void> Group::on_mapped(Edge& edge, const MappedMessage& mapped) {
  if (!config_.read_only) return rdmc::fail(Errc::protocol_error, "a view in a group that shows nothing");
  if (auto checked = check_turn(edge, view.message); !checked) return checked;
  const bool first = smalls_.empty();
  auto& small = smalls_.add({.number = view.message, .view = view}, false);
  small.forwarded = first && forward(small);
  return {};
}

/// In its turn.
bool Group::take_view(SmallMessages::Entry& small) {
  const Edge& root = *find(Rank{0});
  const auto view = root.link->map(small.view->offer, small.view->bytes);
  if (!view) {
    fail(root.rank, view.error());
    return false;
  }
  ++counters_.views_delivered;
  count_delivered(small);
  observer_.mapped(small.number, *view);
  return true;
}

void Group::release_mapped(std::uint64_t message) {
  if (auto* const small = smalls_.find(message); small != nullptr && message < next_to_deliver_)
    small->released = true;
}

bool Group::is_released(const SmallMessages::Entry& small) const {
  if (!small.view) return true;
  return is_root() ? confirmation_.finished_below() > small.number : small.released;
}

}  // namespace rdmc::group
