#include "dataplane/fabric/deadline_heap.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(deadline_heap_test)

using namespace rdmc;
using namespace rdmc::fabric;

namespace {

/// A simple model of the heap: it scans all deadlines.
struct Scan {
  std::vector<Time> deadlines;

  Time earliest() const { return deadlines.empty() ? Time::never() : std::ranges::min(deadlines); }
  std::vector<DeadlineHeap::Slot> due(Time now) const {
    std::vector<DeadlineHeap::Slot> slots;
    for (DeadlineHeap::Slot slot = 0; slot < deadlines.size(); ++slot) {
      if (deadlines[slot] != Time::never() && deadlines[slot] <= now) slots.push_back(slot);
    }
    return slots;
  }
};

std::vector<DeadlineHeap::Slot> due_of(const DeadlineHeap& heap, Time now) {
  std::vector<DeadlineHeap::Slot> slots;
  heap.due(now, slots);
  std::ranges::sort(slots);
  return slots;
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_program_of_changes_leaves_what_a_scan_of_all_deadlines_would_find) {
  BOOST_TEST(rc::check([] {
    DeadlineHeap heap;
    Scan scan;
    const int steps = *rc::gen::inRange(1, 400);
    // There are only a few different times, so that equal ones are common.
    const auto time = [] { return Time{*rc::gen::inRange<std::int64_t>(0, 40)}; };
    for (int step = 0; step < steps; ++step) {
      const int what = *rc::gen::inRange(0, 10);
      if (what == 0 || scan.deadlines.empty()) {
        scan.deadlines.resize(scan.deadlines.size() + *rc::gen::inRange<std::size_t>(1, 30), Time::never());
        heap.reserve(scan.deadlines.size());
      } else {
        const auto slot =
            *rc::gen::inRange<DeadlineHeap::Slot>(0, static_cast<DeadlineHeap::Slot>(scan.deadlines.size()));
        const Time deadline = what <= 2 ? Time::never() : time();
        scan.deadlines[slot] = deadline;
        heap.set(slot, deadline);
      }
      RC_ASSERT(heap.earliest() == scan.earliest());
      const Time now = time();
      RC_ASSERT(due_of(heap, now) == scan.due(now));
    }
  }));
}

BOOST_AUTO_TEST_CASE(what_is_due_is_appended_and_stays_due_until_it_is_set_anew) {
  DeadlineHeap heap;
  heap.reserve(3);
  heap.set(0, Time{5});
  heap.set(2, Time{7});
  std::vector<DeadlineHeap::Slot> slots{1};
  heap.due(Time{5}, slots);
  BOOST_TEST((slots == std::vector<DeadlineHeap::Slot>{1, 0}));
  BOOST_TEST((heap.earliest() == Time{5}));
  heap.set(0, Time::never());
  BOOST_TEST((heap.earliest() == Time{7}));
}

BOOST_AUTO_TEST_SUITE_END()
