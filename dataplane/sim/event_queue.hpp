// The list of all future events of a simulation: a four-ary heap with the key (time, sequence). Events of
// the same time happen in the order in which they were scheduled, so a run depends only on its seed. The
// queue does not own the targets. A target must outlive its events. Only one thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dataplane/base/types.hpp"

namespace rdmc::sim {

/// An object to which events happen. The target chooses the meaning of the argument.
class EventTarget {
 public:
  virtual ~EventTarget() = default;
  virtual void on_event(std::uint64_t argument) = 0;
};

struct Event {
  Time at;
  std::uint64_t sequence = 0;
  EventTarget* target = nullptr;
  std::uint64_t argument = 0;

  bool before(const Event& other) const {
    return at.ns != other.at.ns ? at.ns < other.at.ns : sequence < other.sequence;
  }
};

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  const Event& top() const { return heap_.front(); }

  void push(Time at, EventTarget& target, std::uint64_t argument) {
    const Event event{at, next_sequence_++, &target, argument};
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / kArity;
      if (!event.before(heap_[parent])) break;
      heap_[hole] = heap_[parent];
      hole = parent;
    }
    heap_[hole] = event;
  }

  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return first;
  }

 private:
  static constexpr std::size_t kArity = 4;

  void sink(const Event& event) {
    std::size_t hole = 0;
    for (;;) {
      const std::size_t begin = hole * kArity + 1;
      if (begin >= heap_.size()) break;
      const std::size_t end = begin + kArity < heap_.size() ? begin + kArity : heap_.size();
      std::size_t least = begin;
      for (std::size_t child = begin + 1; child < end; ++child)
        if (heap_[child].before(heap_[least])) least = child;
      if (!heap_[least].before(event)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = event;
  }

  std::vector<Event> heap_;
  std::uint64_t next_sequence_ = 0;
};

}  // namespace rdmc::sim
