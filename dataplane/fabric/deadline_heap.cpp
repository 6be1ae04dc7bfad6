#include "dataplane/fabric/deadline_heap.hpp"

#include <algorithm>
#include <cassert>

namespace rdmc::fabric {

void DeadlineHeap::reserve(std::size_t count) {
  if (count <= positions_.size()) return;
  if (count > positions_.capacity()) positions_.reserve(std::max(count, 2 * positions_.size()));
  entries_.reserve(positions_.capacity());
  positions_.resize(count, kNowhere);  // This resize cannot fail. The slots count as reserved only after it.
}

void DeadlineHeap::put(std::size_t at, const Entry& entry) {
  entries_[at] = entry;
  positions_[entry.slot] = static_cast<std::uint32_t>(at);
}

void DeadlineHeap::rise(std::size_t at, const Entry& entry) {
  while (at > 0) {
    const std::size_t parent = (at - 1) / 2;
    if (entries_[parent].deadline <= entry.deadline) break;
    put(at, entries_[parent]);
    at = parent;
  }
  put(at, entry);
}

void DeadlineHeap::sink(std::size_t at, const Entry& entry) {
  for (;;) {
    std::size_t child = 2 * at + 1;
    if (child >= entries_.size()) break;
    if (child + 1 < entries_.size() && entries_[child + 1].deadline < entries_[child].deadline) ++child;
    if (entries_[child].deadline >= entry.deadline) break;
    put(at, entries_[child]);
    at = child;
  }
  put(at, entry);
}

void DeadlineHeap::remove(std::size_t at) {
  positions_[entries_[at].slot] = kNowhere;
  const Entry last = entries_.back();
  entries_.pop_back();
  if (at == entries_.size()) return;
  const bool earlier = at > 0 && last.deadline < entries_[(at - 1) / 2].deadline;
  earlier ? rise(at, last) : sink(at, last);
}

void DeadlineHeap::set(Slot slot, Time deadline) {
  assert(slot < positions_.size());
  const std::uint32_t at = positions_[slot];
  if (at == kNowhere) {
    if (deadline == Time::never()) return;
    entries_.push_back({});
    return rise(entries_.size() - 1, {deadline, slot});
  }
  const Time before = entries_[at].deadline;
  if (deadline == before) return;
  if (deadline == Time::never()) return remove(at);
  deadline < before ? rise(at, {deadline, slot}) : sink(at, {deadline, slot});
}

// A breadth-first search. If an entry is not due, no entry below it in the heap is due. The slots that were
// appended to `out` are also the queue of the search: the children of their entries are still to be visited.
void DeadlineHeap::due(Time now, std::vector<Slot>& out) const {
  if (entries_.empty() || earliest() > now) return;
  std::size_t next = out.size();
  out.push_back(entries_.front().slot);
  for (; next < out.size(); ++next) {
    const std::size_t first = 2 * std::size_t{positions_[out[next]]} + 1;
    for (std::size_t child = first; child < first + 2 && child < entries_.size(); ++child) {
      if (entries_[child].deadline <= now) out.push_back(entries_[child].slot);
    }
  }
}

}  // namespace rdmc::fabric
