// Messages and their memory. This file asks the application for memory, informs it about messages, and
// decides when its memory is reusable.
#include <algorithm>

#include "lib/group/node_group.hpp"

namespace rdmc::group {

bool NodeGroup::fits(std::span<std::byte> memory, std::uint64_t bytes) {
  if (memory.size() >= bytes) return true;
  group().give_up({Errc::invalid_argument, "memory of " + std::to_string(memory.size()) +
                                               " bytes for a message of " + std::to_string(bytes)});
  return false;
}

/// Returns the application's memory for a message that begins. `ask` must be set if the application was not
/// asked for this message yet. Memory that is too small ends the group.
std::optional<NodeGroup::MessageBuffer> NodeGroup::find_buffer(std::uint64_t message, std::uint64_t bytes,
                                                               bool ask) {
  if (callbacks_.incoming && ask) {
    asked_ = message;
    if (const auto memory = callbacks_.incoming(message, bytes))
      return fits(*memory, bytes) ? std::optional(MessageBuffer{memory->first(bytes), {}}) : std::nullopt;
  }
  if (!waiting_.empty() || buffers_.empty()) return std::nullopt;
  const auto buffer = buffers_.front();
  buffers_.pop_front();
  return fits(buffer, bytes) ? std::optional(MessageBuffer{buffer.first(bytes), buffer}) : std::nullopt;
}

Store& NodeGroup::hold(std::uint64_t message, const MessageBuffer& buffer) {
  Held& held = held_[message];
  held.bytes = buffer.bytes;
  held.posted = buffer.posted;
  held.block_bytes = group().plan_of(message - offset()).block_bytes;
  held.store = std::make_unique<MemoryStore>(held.bytes, held.bytes.size(), held.block_bytes);
  return *held.store;
}

void NodeGroup::serve_waiting() {
  while (!waiting_.empty() && !buffers_.empty() && phase_ != Phase::failed) {
    const auto [message, bytes] = waiting_.front();
    const auto buffer = buffers_.front();
    waiting_.pop_front();
    buffers_.pop_front();
    if (!fits(buffer, bytes)) return;
    const MessageBuffer message_buffer{buffer.first(bytes), buffer};
    if (phase_ == Phase::continuing)
      held_[message].awaited = message_buffer;
    else if (auto taken = group().accept(message - offset(), hold(message, message_buffer)); !taken)
      return group().give_up(taken.error());
  }
  deliver_recovered();
}

Store* NodeGroup::incoming(std::uint64_t message, std::uint64_t bytes) {
  if (const auto place = find_buffer(message, bytes, true)) return &hold(message, *place);
  waiting_.push_back({message, bytes});
  return nullptr;
}

bool NodeGroup::small(std::uint64_t message, std::span<const std::byte> bytes) {
  const auto place = find_buffer(message, bytes.size(), asked_ != message);
  if (!place) return false;
  std::ranges::copy(bytes, place->bytes.begin());
  if (can_continue_) held_[message].bytes = place->bytes;
  deliver(message, place->bytes);
  return true;
}

void NodeGroup::deliver(std::uint64_t message, std::span<std::byte> bytes) {
  delivered_ = message + 1;
  counts_.delivered(bytes.size());
  if (callbacks_.delivered) callbacks_.delivered(message, bytes);
}

void NodeGroup::mapped(std::uint64_t message, const fabric::MappedMemory& memory) {
  held_[message].mapped = memory.keeper;
  delivered_ = message + 1;
  counts_.delivered(memory.bytes.size());
  if (callbacks_.mapped) callbacks_.mapped(message, memory.bytes);
  if (done_ || !callbacks_.mapped) group().release_mapped(message);
}

void NodeGroup::delivered(std::uint64_t message) {
  if (!is_root_) deliver(message, held_[message].bytes);
}

void NodeGroup::completed(std::uint64_t message) {
  completed_ = message + 1;
  reuse();
}

void NodeGroup::stable(std::uint64_t count) {
  stable_ = count;
  if (callbacks_.stable) callbacks_.stable(count);
  reuse();
  submit_all();
}

void NodeGroup::held_up(const std::optional<Holder>& holder) {
  if (!callbacks_.held_up) return;
  callbacks_.held_up(holder ? std::optional(members_[value_of(holder->member)]) : std::nullopt,
                     holder ? holder->message : 0);
}

void NodeGroup::told(Rank from, std::span<const std::byte> note) {
  if (callbacks_.told) callbacks_.told(members_[value_of(from)], note);
}

/// Reports the messages that are reusable. In a group that can be continued, a message is reusable only when
/// no member can need it any more.
void NodeGroup::reuse() {
  const std::uint64_t end = can_continue_ ? std::min(completed_, stable_) : completed_;
  while (reusable_ < end) {
    const std::uint64_t message = reusable_++;  // Increased first, because the upcall may send again.
    held_.erase(message);
    if (callbacks_.reusable) callbacks_.reusable(message);
  }
}

}  // namespace rdmc::group
