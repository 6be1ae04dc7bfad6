#include "dataplane/fabric/transmit_scheduler.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <set>

BOOST_AUTO_TEST_SUITE(transmit_scheduler_test)

using namespace rdmc;
using namespace rdmc::fabric;

namespace {

using Slot = TransmitScheduler::Slot;
constexpr std::size_t kPortion = 64 << 10;

/// Queue pairs with nothing but work requests. They use the scheduler as the software fabric does.
struct Senders {
  struct Work {
    std::size_t bytes;
    std::uint64_t post_order;
  };

  explicit Senders(Slot count) : posted(count), sent(count) { scheduler.reserve(count); }

  void post(Slot slot, std::size_t bytes) {
    posted[slot].push_back({bytes, scheduler.next_post_order()});
    scheduler.mark(slot);
  }
  void make_ready(Slot slot) {
    const auto& works = posted[slot];
    if (!works.empty()) scheduler.make_ready(slot, works.front().post_order);
  }
  /// Sends one portion of the next work request. Returns the slot that had the turn.
  std::optional<Slot> turn() {
    while (!scheduler.marked().empty()) {
      const Slot slot = scheduler.marked().back();
      scheduler.unmark_last();
      make_ready(slot);
    }
    const auto slot = scheduler.take_ready();
    if (!slot) return std::nullopt;
    auto& works = posted[*slot];
    const std::size_t bytes = std::min(works.front().bytes, kPortion);
    sent[*slot] += bytes;
    if ((works.front().bytes -= bytes) == 0) {
      finished.push_back(works.front().post_order);
      works.pop_front();
    }
    if (!works.empty()) works.front().post_order = scheduler.had_turn(*slot, works.front().post_order, bytes);
    make_ready(*slot);
    return slot;
  }

  TransmitScheduler scheduler;
  std::vector<std::deque<Work>> posted;
  std::vector<std::size_t> sent;
  std::vector<std::uint64_t> finished;  ///< The post orders of finished work requests.
};

/// A simple model of the scheduler: it scans all slots.
struct Scan {
  std::set<Slot> marked;
  std::map<Slot, std::uint64_t> ready;
  std::map<Slot, Time> deadlines;

  std::map<Slot, std::uint64_t>::const_iterator first_ready() const {
    return std::ranges::min_element(ready, {}, [](const auto& one) { return one.second; });
  }
  std::optional<std::uint64_t> lowest_ready() const {
    return ready.empty() ? std::nullopt : std::optional(first_ready()->second);
  }
  std::optional<Slot> take_ready() {
    const auto first = first_ready();
    if (first == ready.end()) return std::nullopt;
    const Slot slot = first->first;
    ready.erase(first);
    return slot;
  }
  Time earliest() const {
    Time earliest = Time::never();
    for (const auto& [slot, deadline] : deadlines) earliest = std::min(earliest, deadline);
    return earliest;
  }
  std::set<Slot> due(Time now) const {
    std::set<Slot> slots;
    for (const auto& [slot, deadline] : deadlines)
      if (deadline <= now) slots.insert(slot);
    return slots;
  }
  void remove(Slot slot) {
    marked.erase(slot);
    ready.erase(slot);
    deadlines.erase(slot);
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(any_program_of_calls_finds_what_a_scan_of_all_queue_pairs_would_find) {
  BOOST_TEST(rc::check([] {
    constexpr Slot kSlots = 12;
    TransmitScheduler scheduler;
    scheduler.reserve(kSlots);
    Scan scan;
    std::uint64_t behind_all = scheduler.next_post_order();
    const int steps = *rc::gen::inRange(1, 300);
    for (int step = 0; step < steps; ++step) {
      const Slot slot = *rc::gen::inRange<Slot>(0, kSlots);
      const Time time{*rc::gen::inRange<std::int64_t>(0, 40)};
      switch (*rc::gen::inRange(0, 8)) {
        case 0:
          scheduler.mark(slot);
          scan.marked.insert(slot);
          break;
        case 1:
          if (scan.marked.empty()) break;
          scan.marked.erase(scheduler.marked().back());
          scheduler.unmark_last();
          break;
        case 2: {
          const std::uint64_t order = behind_all = scheduler.next_post_order();
          scheduler.make_ready(slot, order);
          scan.ready.emplace(slot, order);
          break;
        }
        case 3:
          scheduler.make_ready(slot, std::nullopt);
          // The slot gets the next post order, which is higher than all others. So it comes last in the
          // model, too.
          if (!scan.ready.contains(slot)) scan.ready.emplace(slot, ++behind_all);
          break;
        case 4:
        case 5: RC_ASSERT(scheduler.take_ready() == scan.take_ready()); break;
        case 6:
          scheduler.set_deadline(slot, time);
          scan.deadlines[slot] = time;
          break;
        default: scheduler.remove(slot); scan.remove(slot);
      }
      const auto marked = scheduler.marked();
      RC_ASSERT(marked.size() == scan.marked.size());
      RC_ASSERT(std::set<Slot>(marked.begin(), marked.end()) == scan.marked);
      RC_ASSERT(scheduler.is_idle() == (scan.marked.empty() && scan.ready.empty()));
      RC_ASSERT(scheduler.lowest_ready() == scan.lowest_ready());
      RC_ASSERT(scheduler.earliest_deadline() == scan.earliest());
      const auto due = scheduler.due(time);
      RC_ASSERT(due.size() == scan.due(time).size());
      RC_ASSERT(std::set<Slot>(due.begin(), due.end()) == scan.due(time));
    }
  }));
}

BOOST_AUTO_TEST_CASE(work_requests_that_are_no_longer_than_a_turn_leave_as_a_whole_in_the_order_posted) {
  BOOST_TEST(rc::check([] {
    const Slot count = *rc::gen::inRange<Slot>(1, 9);
    Senders senders(count);
    const int works = *rc::gen::inRange(1, 40);
    for (int i = 0; i < works; ++i)
      senders.post(*rc::gen::inRange<Slot>(0, count),
                   *rc::gen::inRange<std::size_t>(1, TransmitScheduler::kTurnBytes - kPortion));
    while (senders.turn()) {
    }
    RC_ASSERT(senders.finished.size() == static_cast<std::size_t>(works));
    RC_ASSERT(std::ranges::is_sorted(senders.finished));
  }));
}

BOOST_AUTO_TEST_CASE(endless_messages_share_the_port_evenly_and_none_starves) {
  constexpr std::size_t kTurns = 2000;
  for (Slot count = 2; count < 9; ++count) {
    Senders senders(count);
    for (Slot slot = 0; slot < count; ++slot) senders.post(slot, kTurns * kPortion);
    std::size_t farthest_apart = 0;
    for (std::size_t i = 0; i < kTurns; ++i) {
      BOOST_REQUIRE(senders.turn().has_value());
      const auto [least, most] = std::ranges::minmax(senders.sent);
      farthest_apart = std::max(farthest_apart, most - least);
    }
    BOOST_TEST(farthest_apart <= TransmitScheduler::kTurnBytes);
  }
}

BOOST_AUTO_TEST_CASE(a_short_work_request_waits_for_one_turn_of_each_endless_message_at_most) {
  constexpr Slot kEndless = 3;
  Senders senders(kEndless + 1);
  for (Slot slot = 0; slot < kEndless; ++slot) senders.post(slot, std::size_t{1} << 30);
  for (int i = 0; i < 100; ++i) (void)senders.turn();
  senders.post(kEndless, 1);
  std::size_t turns = 1;
  while (senders.turn() != Slot{kEndless}) ++turns;
  BOOST_TEST(turns <= kEndless * TransmitScheduler::kTurnBytes / kPortion + 1);
}

BOOST_AUTO_TEST_CASE(
    a_queue_pair_with_only_read_responses_is_sent_before_work_requests_that_are_posted_later) {
  TransmitScheduler scheduler;
  scheduler.reserve(3);
  const std::uint64_t earlier = scheduler.next_post_order();
  scheduler.make_ready(0, std::nullopt);
  scheduler.make_ready(1, scheduler.next_post_order());
  scheduler.make_ready(2, earlier);
  BOOST_TEST((scheduler.take_ready() == Slot{2}));
  BOOST_TEST((scheduler.take_ready() == Slot{0}));
  BOOST_TEST((scheduler.take_ready() == Slot{1}));
  BOOST_TEST(!scheduler.take_ready());
}

BOOST_AUTO_TEST_CASE(a_queue_pair_that_gets_the_slot_of_a_removed_one_inherits_nothing) {
  TransmitScheduler scheduler;
  scheduler.reserve(1);
  const std::uint64_t order = scheduler.next_post_order();
  scheduler.mark(0);
  scheduler.make_ready(0, order);
  scheduler.set_deadline(0, Time{1});
  BOOST_TEST(scheduler.had_turn(0, order, TransmitScheduler::kTurnBytes - 1) == order);
  scheduler.remove(0);
  BOOST_TEST(scheduler.is_idle());
  BOOST_TEST(scheduler.due(Time{1}).empty());
  const std::uint64_t next = scheduler.next_post_order();
  BOOST_TEST(scheduler.had_turn(0, next, 1) == next);
  scheduler.mark(0);
  BOOST_TEST(scheduler.marked().size() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
