// Small messages: from the root into the frames of its children, from frame to frame down the tree, and to
// the application straight from the frame when it is their turn.
#include "lib/group/group.hpp"

namespace rdmc::group {

Result<std::uint64_t> Group::send_small(std::span<const std::byte> bytes) {
  if (auto may = may_send(); !may) return std::unexpected(may.error());
  if (!config_.confirms || bytes.size() > config_.small_bytes)
    return rdmc::fail(Errc::invalid_argument, "too long for a small message");
  const std::uint64_t number = next_number_++;
  drop_arena_message(number);
  if (!smalls_.empty() || !forward(number, bytes)) smalls_.add(number, bytes, false);
  return number;
}

/// To all children or to none; to none, either, of those of whom one was lost before the group was made.
bool Group::forward(std::uint64_t number, std::span<const std::byte> bytes) {
  if (lost_edge() != nullptr) return false;
  const SmallMessage record{number, bytes};
  if (is_root() && !small_window_.admits(number, bytes.size())) return false;
  for (const std::size_t child : tree_children_) {
    if (!edges_[child].link->make_room(encoded_bytes(record))) return false;
  }
  for (const std::size_t child : tree_children_) edges_[child].link->send(config_.name, record);
  if (is_root()) small_window_.sent(bytes.size());
  counters_.smalls_sent += tree_children_.size();
  return true;
}

/// A message that was opened because its arena was granted has turned out to be small.
void Group::drop_arena_message(std::uint64_t number) {
  const auto found = std::ranges::lower_bound(messages_, number, {}, &Message::number);
  if (found != messages_.end() && found->number == number) messages_.erase(found);
}

Result<void> Group::on_small(Edge& edge, const SmallMessage& small) {
  const auto refuse = [](const char* what) { return rdmc::fail(Errc::protocol_error, what); };
  if (tree_parent_ != static_cast<std::size_t>(&edge - edges_.data()) ||
      small.bytes.size() > config_.small_bytes)
    return refuse("a small message where none belongs");
  const std::uint64_t number = small.message;
  if (number < next_small_ || number < next_to_deliver_ ||
      number - next_to_deliver_ > SmallWindow::kMostAhead + kMessagesUnderWay)
    return refuse("a small message out of turn");
  if (const Message* const known = find(number); known != nullptr && known->relay.has_length())
    return refuse("a message that is small and large");
  next_small_ = number + 1;
  drop_arena_message(number);
  const bool in_turn = smalls_.empty() && number == next_to_deliver_ && number == next_to_finish_;
  const bool forwarded = smalls_.empty() && forward(number, small.bytes);
  if (in_turn && forwarded && take_small(number, small.bytes)) {
    if (phase_ != Phase::open) return {};
    next_to_finish_ = next_to_deliver_;
    listener_.completed(number);
    return {};
  }
  kept_charge_ += small_charge(small.bytes.size());
  if (kept_charge_ > config_.small_window) return refuse("more small messages than the window admits");
  smalls_.add(number, small.bytes, true).forwarded = forwarded;
  return {};
}

/// False: the application has no memory for it now.
bool Group::take_small(std::uint64_t number, std::span<const std::byte> bytes) {
  if (!listener_.small(number, bytes)) return false;
  charge_delivered_ += small_charge(bytes.size());
  next_to_deliver_ = number + 1;
  ++counters_.smalls_delivered;
  return true;
}

std::size_t Group::forward_smalls() {
  std::size_t done = 0;
  for (auto* next = smalls_.next_to_forward(); next != nullptr; next = smalls_.next_to_forward()) {
    if (!forward(next->number, next->bytes)) break;
    next->forwarded = true;
    ++done;
  }
  return done;
}

}  // namespace rdmc::group
