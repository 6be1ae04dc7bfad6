// Small messages. The root puts them into frames for its children, and each member passes them on to its own
// children in the tree. If a message is the next one to be delivered, the application gets it straight from
// the frame.
#include <utility>

#include "lib/group/group.hpp"

namespace rdmc::group {

Result<std::uint64_t> Group::send_small(std::span<const std::byte> bytes) {
  if (auto may = may_send(); !may) return std::unexpected(may.error());
  if (!config_.confirms || bytes.size() > config_.small_bytes)
    return rdmc::fail(Errc::invalid_argument, "too long for a small message");
  const std::uint64_t number = next_number_++;
  drop_arena_message(number);
  SmallMessages::Entry small{.number = number, .bytes = bytes};
  if (!smalls_.empty() || !forward(small)) smalls_.add(std::move(small), false);
  return number;
}

/// Sends the message to all children or to none. Sends nothing if a neighbour was lost before the group was
/// made.
bool Group::forward(const SmallMessages::Entry& small) {
  if (lost_edge() != nullptr) return false;
  const Record record = small.mapped ? Record(*small.mapped) : SmallMessage{small.number, small.bytes};
  if (is_root() && !tree_children_.empty() && !small_window_.admits(small.number, small.bytes.size()))
    return false;  // A root without children gets no reports, so it has no window.
  // A message that is delivered and not released stays in the queue of every member, and so do all messages
  // after it. So the root limits their number.
  if (is_root() && config_.read_only && small.number - next_to_finish_ >= SmallWindow::kMostAhead)
    return false;
  for (const std::size_t child : tree_children_) {
    if (!edges_[child].link->make_room(encoded_bytes(record))) return false;
  }
  for (const std::size_t child : tree_children_) edges_[child].link->send(config_.name, record);
  if (is_root()) small_window_.sent(small.bytes.size());
  counters_.smalls_sent += tree_children_.size();
  return true;
}

/// Drops a message that was opened because its arena was granted, and that has turned out to be small.
void Group::drop_arena_message(std::uint64_t number) {
  const auto found = std::ranges::lower_bound(messages_, number, {}, &Message::number);
  if (found != messages_.end() && found->number == number) messages_.erase(found);
}

/// Checks the sender and the number of a message that travels down the tree.
Result<void> Group::check_turn(const Edge& edge, std::uint64_t number) {
  const auto refuse = [](const char* what) { return rdmc::fail(Errc::protocol_error, what); };
  if (tree_parent_ != static_cast<std::size_t>(&edge - edges_.data()))
    return refuse("a small message where none belongs");
  if (number < next_small_ || number < next_to_deliver_ ||
      number - next_to_deliver_ > SmallWindow::kMostAhead + kMessagesInFlight ||
      number - next_to_finish_ >= SmallWindow::kMostUnfinished)
    return refuse("a small message out of turn");
  if (const Message* const known = find(number); known != nullptr && known->relay.has_length())
    return refuse("a message that is small and large");
  next_small_ = number + 1;
  drop_arena_message(number);
  return {};
}

Result<void> Group::on_small(Edge& edge, const SmallMessage& message) {
  const auto refuse = [](const char* what) { return rdmc::fail(Errc::protocol_error, what); };
  if (message.bytes.size() > config_.small_bytes) return refuse("a small message that is not small");
  if (auto checked = check_turn(edge, message.message); !checked) return checked;
  SmallMessages::Entry small{.number = message.message, .bytes = message.bytes};
  const bool in_turn = smalls_.empty() && small.number == next_to_deliver_ && small.number == next_to_finish_;
  small.forwarded = smalls_.empty() && forward(small);
  if (in_turn && small.forwarded && take_small(small)) {
    if (phase_ != Phase::open) return {};
    next_to_finish_ = next_to_deliver_;
    observer_.completed(small.number);
    return {};
  }
  small.charge = small_charge(small.bytes.size());
  kept_charge_ += small.charge;
  if (kept_charge_ > config_.small_window) return refuse("more small messages than the window admits");
  smalls_.add(std::move(small), true);
  return {};
}

/// Gives the message to the application. Returns false if the application has no memory for it now.
bool Group::take_small(SmallMessages::Entry& small) {
  if (!observer_.small(small.number, small.bytes)) return false;
  ++counters_.smalls_delivered;
  count_delivered(small);
  return true;
}

void Group::count_delivered(SmallMessages::Entry& small) {
  charge_delivered_ += small_charge(small.bytes.size());
  next_to_deliver_ = small.number + 1;
  forget_bytes(small);
}

/// Frees the bytes of a message that is both delivered and passed on. The message itself may have to wait
/// until an earlier one is finished.
void Group::forget_bytes(SmallMessages::Entry& small) {
  if (is_root() || !small.forwarded || small.number >= next_to_deliver_) return;
  kept_charge_ -= std::exchange(small.charge, 0);
  small.bytes = {};
  small.kept = {};
}

std::size_t Group::forward_smalls() {
  std::size_t done = 0;
  for (auto* next = smalls_.next_to_forward(); next != nullptr; next = smalls_.next_to_forward()) {
    if (!forward(*next)) break;
    next->forwarded = true;
    forget_bytes(*next);
    ++done;
  }
  return done;
}

}  // namespace rdmc::group
