#include "dataplane/fabric/transmit_scheduler.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace rdmc::fabric {

void TransmitScheduler::reserve(std::size_t count) {
  if (count <= states_.size()) return;
  if (count > states_.capacity()) states_.reserve(std::max(count, 2 * states_.size()));
  marked_.reserve(states_.capacity());
  ready_.reserve(states_.capacity());
  due_.reserve(states_.capacity());
  deadlines_.reserve(count);
  states_.resize(count);  // This resize cannot fail. The slots count as reserved only after it.
}

void TransmitScheduler::remove(Slot slot) {
  std::erase(marked_, slot);
  if (std::erase_if(ready_, [slot](const Ready& ready) { return ready.slot == slot; }) != 0)
    std::ranges::make_heap(ready_, std::greater());
  deadlines_.set(slot, Time::never());
  states_[slot] = {};
}

void TransmitScheduler::mark(Slot slot) {
  if (!std::exchange(states_[slot].is_marked, true)) marked_.push_back(slot);
}

void TransmitScheduler::unmark_last() {
  states_[marked_.back()].is_marked = false;
  marked_.pop_back();
}

void TransmitScheduler::make_ready(Slot slot, std::optional<std::uint64_t> post_order) {
  if (std::exchange(states_[slot].is_ready, true)) return;
  ready_.push_back({post_order ? *post_order : next_post_order(), slot});
  std::ranges::push_heap(ready_, std::greater());
}

std::optional<TransmitScheduler::Slot> TransmitScheduler::take_ready() {
  if (ready_.empty()) return std::nullopt;
  std::ranges::pop_heap(ready_, std::greater());
  const Slot slot = ready_.back().slot;
  ready_.pop_back();
  states_[slot].is_ready = false;
  return slot;
}

std::uint64_t TransmitScheduler::had_turn(Slot slot, std::uint64_t post_order, std::size_t bytes) {
  State& state = states_[slot];
  if (std::exchange(state.in_turn, post_order) != post_order) state.turn_bytes = 0;
  state.turn_bytes += bytes;
  if (state.turn_bytes < kTurnBytes) return post_order;
  state.turn_bytes = 0;
  return next_post_order();
}

std::span<const TransmitScheduler::Slot> TransmitScheduler::due(Time now) {
  due_.clear();
  deadlines_.due(now, due_);
  return due_;
}

}  // namespace rdmc::fabric
