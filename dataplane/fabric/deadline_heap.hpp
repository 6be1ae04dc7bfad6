// When each of many queue pairs wants its next turn: an indexed binary heap, so that a turn of the fabric
// costs what is due and not what exists. A slot's deadline is set over and over, mostly to a little later;
// nothing is allocated once the slots are known. Owned by the software fabric; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/types.hpp"

namespace rdmc::fabric {

class DeadlineHeap {
 public:
  using Slot = std::uint32_t;

  /// Makes room for slots 0 … count-1. Those that are new have no deadline.
  void reserve(std::size_t count);

  /// `slot` < the count reserved. Time::never(): none. O(log n) of those that have one.
  void set(Slot slot, Time deadline);

  /// The earliest deadline of all; Time::never() if there is none.
  Time earliest() const { return entries_.empty() ? Time::never() : entries_.front().deadline; }

  /// Appends the slots whose deadline is not after `now`, in no order; they keep it. Looks at those and at no
  /// more than twice as many.
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

  std::vector<Entry> entries_;            // heap: no entry is earlier than its parent
  std::vector<std::uint32_t> positions_;  // by slot, in entries_
};

}  // namespace rdmc::fabric
