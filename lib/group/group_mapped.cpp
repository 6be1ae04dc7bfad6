// Mapped messages: large messages that members on the root's host read in the root's memory. The records
// about them travel like small messages, down the tree and in the root's order. But their bytes stay in the
// root's memory.
#include "lib/group/group.hpp"

namespace rdmc::group {

std::optional<std::uint64_t> Group::try_show(std::span<const std::byte> bytes) {
  if (!config_.read_only || !may_send() || bytes.empty() || edges_.empty()) return std::nullopt;
  // The offer is the same for all members, because it says where the message is in the root's memory.
  std::optional<fabric::MappingOffer> offer;
  for (const Edge& edge : edges_) {
    auto* const local = edge.link == nullptr ? nullptr : edge.link->local_peer();
    offer = local == nullptr ? std::nullopt : local->offer_mapping(bytes);
    if (!offer) return std::nullopt;
  }
  const std::uint64_t number = next_number_++;
  drop_arena_message(number);
  const bool first = smalls_.empty();
  auto& small = smalls_.add(
      {.number = number, .mapped = MappedMessage{.message = number, .offer = *offer, .bytes = bytes.size()}},
      false);
  small.forwarded = first && forward(small);
  return number;
}

Result<void> Group::on_mapped(Edge& edge, const MappedMessage& mapped) {
  if (!config_.read_only)
    return rdmc::fail(Errc::protocol_error, "a mapped message in a group that maps none");
  if (auto checked = check_turn(edge, mapped.message); !checked) return checked;
  const bool first = smalls_.empty();
  auto& small = smalls_.add({.number = mapped.message, .mapped = mapped}, false);
  small.forwarded = first && forward(small);
  return {};
}

/// Delivers a mapped message. Called when all messages before it are delivered. Returns false if the message
/// cannot be mapped; then the group has failed.
bool Group::take_mapped(SmallMessages::Entry& small) {
  const Edge& root = *find(Rank{0});
  auto* const local = root.link->local_peer();
  const auto memory = local == nullptr
                          ? rdmc::fail(Errc::unsupported, "the root's memory cannot be mapped here")
                          : local->map(small.mapped->offer, small.mapped->bytes);
  if (!memory) {
    fail(root.rank, memory.error());
    return false;
  }
  ++counters_.mapped_delivered;
  count_delivered(small);
  observer_.mapped(small.number, *memory);
  return true;
}

void Group::release_mapped(std::uint64_t message) {
  if (auto* const small = smalls_.find(message); small != nullptr && message < next_to_deliver_)
    small->released = true;
}

bool Group::is_released(const SmallMessages::Entry& small) const {
  if (!small.mapped) return true;
  return is_root() ? confirmation_.finished_below() > small.number : small.released;
}

}  // namespace rdmc::group
