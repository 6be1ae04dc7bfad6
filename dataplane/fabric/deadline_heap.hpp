// The next deadlines of many queue pairs, in an indexed binary heap. So the cost of a turn of the fabric
// grows with the queue pairs that are due, not with all of them. A slot's deadline is set very often, mostly
// to a slightly later time. Nothing is allocated after reserve(). Owned by the software fabric; used by one
// thread.
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

  /// Precondition: `slot` is below the reserved count. Time::never() removes the deadline. O(log n), for n
  /// slots with a deadline.
  void set(Slot slot, Time deadline);

  /// The earliest of all deadlines; Time::never() if there is none.
  Time earliest() const { return entries_.empty() ? Time::never() : entries_.front().deadline; }

  /// Appends the slots whose deadline is not after `now`, in any order. They keep their deadlines. The search
  /// visits only these entries and their children.
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
  std::vector<std::uint32_t> positions_;  // By slot: the index in entries_.
};

}  // namespace rdmc::fabric
