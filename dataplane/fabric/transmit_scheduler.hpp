// Decides which queue pair of a software fabric may send next, and when the timers of a queue pair are due.
// It knows queue pairs only by their slots, does no I/O, and is given the time. Answers are sent first, and
// then the work requests of all queue pairs in post order. Queue pairs that have nothing to send, or are not
// allowed to send, are not in any of its lists and cost nothing. Owned by the software fabric; used by one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/types.hpp"
#include "dataplane/fabric/deadline_heap.hpp"

namespace rdmc::fabric {

class TransmitScheduler {
 public:
  using Slot = DeadlineHeap::Slot;
  /// A work request that has sent this number of bytes is moved behind the other waiting work requests. So a
  /// long message does not block work requests that are posted after it, and a block up to this size leaves
  /// without interruption.
  static constexpr std::size_t kTurnBytes = 1 << 20;

  /// Makes space for the slots 0 to count-1. Nothing is allocated after this. All other functions have the
  /// precondition that their slot is below the reserved count.
  void reserve(std::size_t count);
  /// Removes the slot from all lists, and its deadline. Another queue pair may use the slot afterwards.
  void remove(Slot slot);

  /// Returns a post order that is higher than all earlier ones.
  std::uint64_t next_post_order() { return next_post_order_++; }

  /// Marks a queue pair that may have answers or work requests to send. No effect if it is marked.
  void mark(Slot slot);
  /// The marked queue pairs. Each is listed once. The answers of the last one leave next.
  std::span<const Slot> marked() const { return marked_; }
  /// Removes the last of marked(), because its answers have been sent. Precondition: marked() is not empty.
  void unmark_last();

  /// Adds a queue pair that may send packets. `post_order` is the post order of the work request that it
  /// sends next. If only responses to the peer's READs are waiting, it is nullopt, and the queue pair is
  /// added behind all others. No effect if the queue pair has been added and not been taken yet.
  void make_ready(Slot slot, std::optional<std::uint64_t> post_order);
  /// Removes and returns the ready queue pair with the lowest post order; nullopt if there is none.
  std::optional<Slot> take_ready();
  /// The lowest post order of all ready queue pairs; nullopt if there is none.
  std::optional<std::uint64_t> lowest_ready() const {
    return ready_.empty() ? std::nullopt : std::optional(ready_.front().post_order);
  }
  /// Called when the queue pair has sent `bytes` bytes, and the work request with this post order is the next
  /// one that it sends. Returns the new post order of this work request. It is the same as before, unless the
  /// work request has now sent kTurnBytes.
  std::uint64_t had_turn(Slot slot, std::uint64_t post_order, std::size_t bytes);

  /// True if no queue pair is marked or ready.
  bool is_idle() const { return marked_.empty() && ready_.empty(); }

  /// Sets the time at which the timers of the queue pair must run. Time::never() removes it.
  void set_deadline(Slot slot, Time deadline) { deadlines_.set(slot, deadline); }
  /// The earliest of all deadlines, or Time::never().
  Time earliest_deadline() const { return deadlines_.earliest(); }
  /// Returns the slots whose deadline is not after `now`, in any order. They keep their deadlines. The result
  /// is valid until the next call.
  std::span<const Slot> due(Time now);

 private:
  struct State {
    bool is_marked = false, is_ready = false;
    std::uint64_t in_turn = 0;   // The post order of the work request that turn_bytes counts for.
    std::size_t turn_bytes = 0;  // The bytes of that work request that have left.
  };
  struct Ready {
    std::uint64_t post_order;  // The post order at the time when the queue pair was added.
    Slot slot;
    bool operator>(const Ready& other) const { return post_order > other.post_order; }
  };

  std::vector<State> states_;  // Indexed by slot.
  std::vector<Slot> marked_;
  std::vector<Ready> ready_;  // A heap, with the lowest post order first.
  DeadlineHeap deadlines_;
  std::vector<Slot> due_;  // The result of the last due().
  std::uint64_t next_post_order_ = 0;
};

}  // namespace rdmc::fabric
