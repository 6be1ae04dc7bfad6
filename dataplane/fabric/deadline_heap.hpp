// The next deadlines of many queue pairs, in an indexed binary heap. The cost of a turn of the fabric
// therefore grows with the number of queue pairs that are due, not with the number of all queue pairs. The
// deadline of a slot is set very often, mostly to a slightly later time. Nothing is allocated after
// reserve(). Owned by the software fabric; used by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/types.hpp"

namespace rdmc::fabric {

class DeadlineHeap {
 public:
  using Slot = std::uint32_t;

  /// Makes space for the slots 0 to count-1. New slots have no deadline.
  void reserve(std::size_t count);

  /// Sets the deadline of `slot`, or removes it if `deadline` is Time::never(). Precondition: `slot` is below
  /// the reserved count. Takes O(log n) for n slots with a deadline.
  void set(Slot slot, Time deadline);

  /// Returns the earliest of all deadlines, or Time::never() if no slot has a deadline.
  Time earliest() const { return entries_.empty() ? Time::never() : entries_.front().deadline; }

  /// Appends to `out` the slots whose deadline is not after `now`, in any order. The slots keep their
  /// deadlines. The search visits only the entries of these slots and the children of these entries.
  void due(Time now, std::vector<Slot>& out) const;

 private:
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  struct Entry {
    Time deadline;
    Slot slot;
  };

  void put(std::size_t at, const Entry& entry);
  void rise(std::size_t at, const Entry& entry);
  void sink(std::size_t at, const Entry& entry);
  void remove(std::size_t at);

  std::vector<Entry> entries_;            // A heap: no entry is earlier than its parent.
  std::vector<std::uint32_t> positions_;  // The index in entries_ of each slot.
};

}  // namespace rdmc::fabric
