// The part of the mux for large messages: which stream owns which slots, and which stream writes next.
#include <algorithm>
#include <utility>

#include "dataplane/base/types.hpp"
#include "lib/socket/mux.hpp"

namespace rdmc::sockets {

void Mux::on_bulk(ConnectionId id) {
  askers_.push_back(id);
  if (has_slots_) use_slots(slots_);
}

void Mux::use_slots(std::shared_ptr<SlotMemory> slots) {
  slots_ = std::move(slots);
  has_slots_ = true;
  for (const ConnectionId id : std::exchange(askers_, {})) {
    const auto found = streams_.find(id);
    if (found != streams_.end()) grant_to(*found->second.stream);
  }
}

void Mux::grant_to(Stream& stream) {
  std::deque<OwnedSlot> few;
  while (slots_ != nullptr && few.size() < SlotMemory::kSlotsPerStream) {
    const auto slot = slots_->take();
    if (!slot) break;
    few.emplace_back(slots_, *slot);
  }
  stream.grant(std::move(few));
}

void Mux::on_granted(Stream& stream, const OwnedSlot& slot) {
  slot_users_[slot.number()] = stream.id();
  granted_.push_back(slot.grant());
}

Result<void> Mux::on_chunk(std::uint32_t slot, std::size_t bytes) {
  if (slot >= SlotMemory::kSlots) return fail(Errc::protocol_error, "a slot that there is not");
  const ConnectionId id = slot_users_[slot];
  const auto found = streams_.find(id);
  if (found != streams_.end()) {
    const auto stream = found->second.stream;
    auto heard = stream->on_chunk(slot, bytes);
    forget_if_over(id);
    return heard;
  }
  const auto fenced = fenced_.find(id);
  if (fenced == fenced_.end() ||
      std::erase_if(fenced->second, [&](const OwnedSlot& one) { return one.number() == slot; }) == 0)
    return fail(Errc::protocol_error, "a large message where none was granted");
  return {};
}

std::optional<std::pair<std::shared_ptr<Stream>, ChunkWrite>> Mux::next_chunk() {
  for (std::size_t turns = chunkers_.size(); turns > 0; --turns) {
    const ConnectionId id = chunkers_.pop();
    const auto found = streams_.find(id);
    if (found == streams_.end() || !found->second.stream->has_chunk()) {
      if (found != streams_.end()) found->second.is_chunker = false;
      continue;
    }
    chunkers_.push(id);
    if (auto next = found->second.stream->next_chunk())
      return std::pair(found->second.stream, std::move(*next));
  }
  return std::nullopt;
}

/// Keeps the granted slots of a connection that has ended on this side. Unless the peer has ended its side,
/// it may have written into these slots, or may still write into them. When the peer knows of the end, it
/// sends a last record (bulk, fin or reset). Then these slots are free.
void Mux::fence(ConnectionId id, Stream& stream) {
  auto granted = stream.take_granted();
  if (!granted.empty() && !stream.has_heard_end()) fenced_.emplace(id, std::move(granted));
}

}  // namespace rdmc::sockets
