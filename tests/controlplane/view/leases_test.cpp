// Tests of leases: which times each side measures, which members must grant, and which events shorten a wait.
// Whole groups are tested in tests/apps/sim/views_scenario_test.cpp.
#include <rapidcheck.h>

#include "tests/controlplane/view/process.hpp"

namespace rdmc::view {
BOOST_AUTO_TEST_SUITE(leases_test)
namespace {

constexpr Duration kTerm = milliseconds(150);

View leased(View view) {
  for (Member& member : view.members) member.lease = kTerm;
  return view;
}

Member leased(Member member) {
  member.lease = kTerm;
  return member;
}

/// A process in a group whose members have leases.
struct Leased : Process {
  explicit Leased(View view, std::uint8_t n = 1) : Process(leased(member(n))) {
    now = Time{} + seconds(1);
    read(leased(std::move(view)));
    take<Installed>();
  }
  /// Returns the number of this process's newest status that requests a lease, or 0 if there is none.
  std::uint64_t newest_request() {
    std::uint64_t newest = 0;
    for (const Transmit& said : take<Transmit>()) {
      const Message message = decode(said.message).value();
      const Status* const status = std::get_if<Status>(&message);
      if (status != nullptr && status->asks) newest = status->sequence;
    }
    return newest;
  }
  /// Lets time pass, in which the peers report that they hear `hears` and request leases. If `grant` is true,
  /// the peers also grant the requests of this process.
  void go_on(std::initializer_list<std::uint8_t> peers, MemberSet hears, Duration time, bool grant = true) {
    for (const Time end = now + time; now < end;) {
      wait(milliseconds(20));
      const std::uint64_t request = newest_request();
      for (const auto n : peers) {
        Status status{.from = MemberId{n},
                      .sequence = ++sequence,
                      .epoch = core.view().epoch,
                      .hears = hears,
                      .asks = true};
        status.hears.erase(MemberId{n});
        if (grant && request > 0) status.granted.push_back({core.self().id, request});
        hear(status);
      }
    }
  }
  bool holds() const { return now < core.lease_until(); }
  /// Lets the store accept the view that this process has proposed. Returns the current view.
  View change() {
    wait(milliseconds(100));
    for (const SwapStore& swap : take<SwapStore>()) {
      if (swap.entry != StoreEntry::view) continue;
      standing = swap.next;
      core.on_swapped(swap.request, SwapResult{true, swap.next}, now);
    }
    return core.view();
  }
};

struct LeasedOfThree : Leased {
  LeasedOfThree() : Leased(view_of(5, {1, 2, 3})) { go_on({2, 3}, ids({1, 2, 3}), milliseconds(500)); }
};

BOOST_AUTO_TEST_CASE(a_lease_counts_from_the_request_and_lasts_as_long_as_every_granter_has_granted_it) {
  const View view = view_of(5, {1, 2, 3});
  Lease lease(kTerm);
  lease.begin_view(view, MemberId{1});
  lease.asked(7, Time{100});
  lease.asked(8, Time{200});
  lease.granted(MemberId{2}, 8);
  BOOST_TEST((lease.granted_until() == Time{}));
  lease.granted(MemberId{3}, 7);
  BOOST_TEST((lease.granted_until() == Time{100} + kTerm));
  // There was no request with this number.
  lease.granted(MemberId{3}, 9);
  // This sender is no granter.
  lease.granted(MemberId{9}, 8);
  BOOST_TEST((lease.granted_until() == Time{100} + kTerm));
  lease.begin_view(view_of(6, {1, 3}), MemberId{1});
  lease.granted(MemberId{3}, 8);
  // The old grants stay valid, but are not extended.
  BOOST_TEST((lease.granted_until() == Time{100} + kTerm));
  lease.end();
  BOOST_TEST((lease.granted_until() == Time{}));
}

BOOST_AUTO_TEST_CASE(a_granter_waits_longer_than_the_holder_holds_whatever_the_rates_of_their_clocks) {
  BOOST_TEST(rc::check([] {
    const auto term = *rc::gen::inRange<std::int64_t>(1, kMaxHeld.ns);
    const std::int64_t drift = kClockDrift, million = 1'000'000;
    // The holder's clock is as slow as permitted, and the granter's clock is as fast as permitted.
    const double holds = static_cast<double>(term) * million / static_cast<double>(million - drift);
    const double waits =
        static_cast<double>(stretched(nanoseconds(term)).ns) * million / static_cast<double>(million + drift);
    RC_ASSERT(waits >= holds);
  }));
}

BOOST_AUTO_TEST_CASE(a_view_names_who_may_hold_a_lease_or_when_they_are_too_many_the_longest_wait) {
  LeaseGrants grants;
  for (std::uint64_t id = 1; id <= kMaxMembers + 1; ++id)
    grants.note(MemberId{id}, microseconds(static_cast<std::int64_t>(id)), Time{});
  grants.forget(MemberId{1});
  BOOST_TEST(grants.held_outside(view_of(6, {2}), Time{}).size() == kMaxMembers - 1);
  grants.note(MemberId{1}, seconds(1), Time{});
  BOOST_TEST(grants.held_outside(view_of(6, {2}), Time{}).size() == kMaxMembers);
  const auto all = grants.held_outside(view_of(6, {}), Time{});
  BOOST_TEST_REQUIRE(all.size() == 1u);
  BOOST_TEST((all[0].holder == kAnybody && all[0].remaining >= seconds(1)));
}

BOOST_AUTO_TEST_CASE(a_member_holds_a_lease_while_all_others_grant_it) {
  LeasedOfThree process;
  BOOST_TEST(process.holds());
  BOOST_TEST(process.take<LeaseGained>().size() == 1u);
  // Member 3 sends nothing.
  process.go_on({2}, ids({1, 2, 3}), milliseconds(200));
  BOOST_TEST(!process.holds());
  BOOST_TEST(process.take<LeaseLost>().size() == 1u);
  process.go_on({2, 3}, ids({1, 2, 3}), milliseconds(100));
  BOOST_TEST(process.holds());
  process.go_on({2, 3}, ids({1, 2, 3}), milliseconds(200), false);
  BOOST_TEST(!process.holds());
}

BOOST_AUTO_TEST_CASE(a_stopped_holder_knows_that_its_lease_is_over_before_it_hears_of_anything) {
  LeasedOfThree process;
  const Time resumed = process.now + seconds(5);
  BOOST_TEST((process.core.lease_until() < resumed));
}

BOOST_AUTO_TEST_CASE(who_is_alone_holds_a_lease_until_the_store_has_been_silent_for_long) {
  Leased process(view_of(5, {1}));
  process.go_on({}, {}, milliseconds(500));
  BOOST_TEST(process.holds());
  process.standing.reset();
  process.go_on({}, {}, Timing{}.store_fresh - milliseconds(600));
  BOOST_TEST(process.holds());
  process.go_on({}, {}, milliseconds(700));
  BOOST_TEST(!process.holds());
}

BOOST_AUTO_TEST_CASE(a_view_does_not_wait_but_says_what_a_removed_member_may_hold_and_who_takes_over_waits) {
  LeasedOfThree process;
  BOOST_TEST(process.core.remove(MemberId{3}, process.now).has_value());
  const View view = process.change();
  BOOST_TEST(!view.contains(MemberId{3}));
  BOOST_TEST_REQUIRE(view.held.size() == 1u);
  BOOST_TEST((view.held[0].holder == MemberId{3}));
  BOOST_TEST((view.held[0].remaining > Duration{} && view.held[0].remaining <= stretched(kTerm)));
  process.take<EarlierLeasesOver>();
  const Time over = process.core.takeover_at();
  BOOST_TEST((over > process.now));
  process.go_on({2}, ids({1, 2}), over - process.now);
  BOOST_TEST(process.take<EarlierLeasesOver>().size() == 1u);
  BOOST_TEST((process.core.takeover_at() <= process.now));
}

BOOST_AUTO_TEST_CASE(only_an_exit_that_was_seen_ends_a_wait_a_refused_connection_does_not) {
  enum class Sign : std::uint8_t { refused, gone, replaced, exited };
  for (const Sign sign : {Sign::refused, Sign::gone, Sign::replaced, Sign::exited}) {
    LeasedOfThree process;
    if (sign == Sign::refused) process.core.on_refused(MemberId{3}, true, process.now);
    if (sign == Sign::gone) process.core.on_gone(MemberId{3}, process.now);
    if (sign == Sign::replaced) {
      Member again = member(3);
      again.id = MemberId{33};
      process.hear({.from = again.id, .sequence = 1, .epoch = Epoch{5}, .joining = again});
      BOOST_TEST(process.answer_who_listens({{again.address, again.id}}) == 1u);
    }
    if (sign == Sign::exited) process.core.on_exited(MemberId{3}, process.now);
    const View view = process.change();
    BOOST_TEST(!view.contains(MemberId{3}));  // each of these signs removes the member
    BOOST_TEST(view.held.empty() == (sign == Sign::exited));
  }
}

BOOST_AUTO_TEST_CASE(the_word_of_a_member_counts_for_an_exit_on_its_own_host_only) {
  for (const bool same_host : {false, true}) {
    View view = view_of(5, {1, 2, 3});
    if (same_host) view.members[2].host = view.members[1].host;
    Leased process(view);
    process.go_on({2, 3}, ids({1, 2, 3}), milliseconds(500));
    process.hear({.from = MemberId{2},
                  .sequence = ++process.sequence,
                  .epoch = Epoch{5},
                  .hears = ids({1}),
                  .gone = ids({3}),
                  .exited = ids({3})});
    BOOST_TEST(process.change().held.empty() == same_host);
  }
}

BOOST_AUTO_TEST_CASE(who_forges_words_on_the_data_path_grants_and_ends_no_lease_and_ends_no_wait) {
  LeasedOfThree process;
  process.is_authenticated = false;
  process.go_on({2, 3}, ids({1, 2, 3}), milliseconds(300));
  BOOST_TEST(!process.holds());
  // The forged statuses claim that member 3, which is on the sender's host, has ended, and that the sender
  // has installed a later view.
  View view = view_of(5, {1, 2, 3});
  view.members[2].host = view.members[1].host;
  Leased waiting(view);
  waiting.go_on({2, 3}, ids({1, 2, 3}), milliseconds(500));
  waiting.is_authenticated = false;
  waiting.hear({.from = MemberId{2},
                .sequence = ++waiting.sequence,
                .epoch = Epoch{5},
                .hears = ids({1}),
                .gone = ids({3}),
                .exited = ids({3})});
  BOOST_TEST_REQUIRE(waiting.change().held.size() == 1u);
  const Time over = waiting.core.takeover_at();
  waiting.hear({.from = MemberId{2}, .sequence = ++waiting.sequence, .epoch = Epoch{6}, .hears = ids({1})});
  BOOST_TEST((over > waiting.now && waiting.core.takeover_at() == over));
}

BOOST_AUTO_TEST_CASE(a_question_for_a_lease_that_is_forged_is_not_answered) {
  LeasedOfThree process;
  process.take<Transmit>();
  process.is_authenticated = false;
  process.hear({.from = MemberId{2},
                .sequence = process.sequence += 1000,
                .epoch = Epoch{5},
                .hears = ids({1, 3}),
                .asks = true});
  process.wait(milliseconds(100));
  for (const Transmit& said : process.take<Transmit>()) {
    const Message message = decode(said.message).value();
    for (const Granted& granted : std::get<Status>(message).granted)
      BOOST_TEST(granted.sequence + 1000 <= process.sequence);
  }
}

BOOST_AUTO_TEST_CASE(a_status_that_came_over_the_data_path_first_says_of_leases_what_its_twin_says) {
  LeasedOfThree process;
  process.wait(milliseconds(100));
  const std::uint64_t request = process.newest_request();
  const Time before = process.core.lease_until();
  BOOST_TEST_REQUIRE(request > 0u);
  for (const bool is_authenticated : {false, true}) {
    process.is_authenticated = is_authenticated;
    for (const std::uint8_t n : std::initializer_list<std::uint8_t>{2, 3})
      process.hear({.from = MemberId{n},
                    .sequence = process.sequence + n,
                    .epoch = Epoch{5},
                    .hears = ids({1, 2, 3}),
                    .granted = {{MemberId{1}, request}}});
    BOOST_TEST((process.core.lease_until() > before) == is_authenticated);
  }
  BOOST_TEST(process.core.counters().late == 0u);
}

BOOST_AUTO_TEST_CASE(what_is_said_in_a_group_with_leases_goes_both_ways_and_a_view_is_brought_authenticated) {
  for (const bool leases : {false, true}) {
    View view = view_of(5, {1, 2});
    Process process(leases ? leased(member(1)) : member(1));
    process.now = Time{} + seconds(1);
    for (const Transmit& said : process.take<Transmit>())
      BOOST_TEST((said.way == Way::both));  // the process is a joiner
    process.read(leases ? leased(view) : view);
    process.take<Transmit>();
    process.keep_hearing({2}, ids({1}), milliseconds(200));
    process.hear({.from = MemberId{2}, .sequence = ++process.sequence, .epoch = Epoch{4}});
    std::size_t statuses = 0, views = 0;
    for (const Transmit& said : process.take<Transmit>()) {
      const bool is_view = std::holds_alternative<View>(decode(said.message).value());
      ++(is_view ? views : statuses);
      BOOST_TEST((said.way == (is_view ? Way::authenticated : leases ? Way::both : Way::data_path)));
    }
    BOOST_TEST((statuses > 0 && views == 1));
  }
}

BOOST_AUTO_TEST_CASE(who_has_proposed_a_view_grants_and_asks_no_more_until_a_later_view_stands) {
  LeasedOfThree process;
  process.core.on_gone(MemberId{3}, process.now);
  process.wait(milliseconds(5));
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(swaps.size() == 1u);
  process.take<Transmit>();
  process.hear({.from = MemberId{2},
                .sequence = ++process.sequence,
                .epoch = Epoch{5},
                .hears = ids({1}),
                .asks = true});
  process.wait(milliseconds(200));
  for (const Transmit& said : process.take<Transmit>()) {
    const Message message = decode(said.message).value();
    const Status* const status = std::get_if<Status>(&message);
    BOOST_TEST((status == nullptr || (!status->asks && status->granted.empty())));
  }
  // After this answer, the process does not know whether the store has accepted the view. So it must propose
  // another view.
  process.core.on_swapped(swaps[0].request, fail(Errc::timed_out, "no answer"), process.now);
  process.go_on({2}, ids({1, 2}), seconds(1));
  BOOST_TEST(!process.take<SwapStore>().empty());
}

BOOST_AUTO_TEST_CASE(a_newcomer_waits_for_what_older_members_may_hold_unless_they_are_in_its_view) {
  View view = view_of(5, {1, 2});
  view.members.push_back(member(9));
  view.members.back().since = Epoch{5};
  Leased process(view, 9);
  BOOST_TEST((process.core.takeover_at() >= process.now + kTerm));
  // By these statuses, member 1 shows that it has installed the view.
  process.go_on({1}, ids({1, 2, 9}), milliseconds(40));
  BOOST_TEST((process.core.takeover_at() > process.now));
  process.go_on({1, 2}, ids({1, 2, 9}), milliseconds(20));
  BOOST_TEST((process.core.takeover_at() <= process.now));
}

BOOST_AUTO_TEST_CASE(a_joiner_that_begins_a_group_anew_waits_as_long_as_a_member_trusts_its_last_reading) {
  // The joiner listens at the address of the only member, and has the same network stack.
  for (const bool exited : {false, true}) {
    Member self = leased(member(1));
    self.id = MemberId{9};
    Process joiner(self);
    joiner.now = Time{} + seconds(1);
    if (exited) joiner.core.on_exited(MemberId{1}, joiner.now);
    joiner.read(leased(view_of(5, {1})));
    joiner.wait(seconds(1));
    const auto swaps = joiner.take<SwapStore>();
    BOOST_TEST_REQUIRE(swaps.size() == 1u);
    const std::vector<Held> anybody{{kAnybody, Timing{}.store_fresh}};
    BOOST_TEST((swaps[0].next.held == (exited ? std::vector<Held>{} : anybody)));
  }
}

BOOST_AUTO_TEST_CASE(
    a_joiner_that_knows_that_all_members_have_exited_begins_at_once_and_waits_for_named_leases) {
  for (const bool all : {false, true}) {
    Process joiner(leased(member(9)));
    joiner.now = Time{} + seconds(1);
    View view = leased(view_of(5, {1, 2}));
    view.held = {{MemberId{7}, milliseconds(10)}};
    joiner.read(view);
    joiner.core.on_exited(MemberId{1}, joiner.now);
    if (all) joiner.core.on_exited(MemberId{2}, joiner.now);
    joiner.wait(milliseconds(100));
    const auto swaps = joiner.take<SwapStore>();
    BOOST_TEST_REQUIRE(swaps.size() == (all ? 1u : 0u));
    if (all) BOOST_TEST((swaps[0].next.held == view.held && swaps[0].next.members.size() == 1));
  }
}

BOOST_AUTO_TEST_CASE(a_view_that_a_process_outside_makes_waits_for_the_whole_term) {
  View view = leased(view_of(5, {1, 2, 3}));
  view.held = {{MemberId{7}, milliseconds(10)}};
  const View after = without(view, MemberId{2});
  BOOST_TEST((after.epoch == Epoch{6} && !after.contains(MemberId{2}) && after.members.size() == 2));
  BOOST_TEST((after.held == std::vector<Held>{{MemberId{7}, milliseconds(10)}, {MemberId{2}, kTerm}}));
  // The last member grants its lease to itself.
  const View empty = without(leased(view_of(5, {1})), MemberId{1});
  BOOST_TEST((empty.held == std::vector<Held>{{MemberId{1}, Timing{}.store_fresh}}));
}

BOOST_AUTO_TEST_CASE(after_the_last_member_has_left_a_joiner_waits_only_for_the_leases_that_the_view_names) {
  Process joiner(leased(member(9)));
  joiner.now = Time{} + seconds(1);
  const View left{.epoch = Epoch{5}, .held = {{MemberId{7}, milliseconds(10)}}};
  joiner.read(left);
  joiner.wait(milliseconds(100));
  const auto swaps = joiner.take<SwapStore>();
  BOOST_TEST_REQUIRE(swaps.size() == 1u);
  BOOST_TEST((swaps[0].next.held == left.held));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::view
