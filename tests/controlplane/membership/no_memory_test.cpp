// The thread of a membership runs out of memory while a view changes. Any of the allocations can fail. After
// the failure, the process must have installed the complete view, or know that its membership has ended. It
// must hold no lease that was not granted.
#include <atomic>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "controlplane/membership/membership.hpp"
#include "tests/controlplane/connect/harness.hpp"
#include "tests/controlplane/view/process.hpp"
#include "tests/failing_memory.hpp"
#include "tests/sampled.hpp"

namespace rdmc::membership {
namespace {

using rdmc::testing::end_failures;
using rdmc::testing::fail_allocations;
using rdmc::testing::MemoryOfTest;

/// A store with one view. It answers on the control loop. Its own allocations never fail.
struct OneView final : view::ViewStore {
  explicit OneView(control::ControlLoop& on) : loop(on) {}
  void read(const std::string& name, ReadDone done) override {
    const MemoryOfTest memory;
    loop.post([view = name == "g" ? stands : view::View{}, done = std::move(done)]() mutable {
      done(std::move(view));
    });
  }
  void compare_and_swap(const std::string&, const view::View&, SwapDone) override {}
  void watch(const std::string&, Hint to) override {
    const MemoryOfTest memory;
    hint = std::move(to);
  }
  void list(ListDone) override {}

  control::ControlLoop& loop;
  view::View stands;
  Hint hint;
};

/// A member that has a lease and is alone in its view. Later the store gives a view with two members.
struct Member {
  Member() {
    Upcalls upcalls;
    upcalls.installed = [this](const view::View& view) {
      const MemoryOfTest memory;
      events.change([&] { installed = view; });
    };
    upcalls.removed = [this](const view::View&) {
      const MemoryOfTest memory;
      events.change([&] { ++removed; });
    };
    upcalls.lease_gained = [this] { events.change([&] { holds = true; }); };
    membership = Membership::join(peers, store,
                                  {.group = "g",
                                   .name = "one",
                                   .listen = Address::ipv4(127, 0, 0, 1, 0),
                                   .fabric = "udp",
                                   .lease = seconds(1),
                                   .context = context},
                                  std::move(upcalls))
                     .value();
    loop->call([&] { store.stands = {Epoch{1}, {membership->view().self()}}; });
    BOOST_TEST_REQUIRE(events.wait([&] { return holds; }));
  }
  ~Member() {
    loop->call([] { end_failures(); });
  }
  /// Makes the store offer a view with a second member, which grants no lease. From now on, `count`
  /// allocations of the loop's thread succeed, and then `failing` allocations fail.
  void change_view(long count, long failing) {
    loop->call([&] {
      store.stands.epoch = Epoch{2};
      store.stands.members.push_back(
          {.id = view::MemberId{7}, .address = Address::ipv4(127, 0, 0, 1, 9), .lease = seconds(1)});
      fail_allocations(count, failing);
      store.hint(Epoch{2});
    });
  }

  control::testing::Events events;
  std::unique_ptr<control::ControlLoop> loop = control::ControlLoop::create().value();
  std::shared_ptr<peer::Context> context = std::make_shared<peer::Context>();
  std::shared_ptr<peer::Peers> peers =
      peer::Peers::create(*loop, control::testing::insecure_options()).value();
  OneView store{*loop};
  std::optional<view::View> installed;
  int removed = 0;
  bool holds = false;
  std::unique_ptr<Membership> membership;
};

/// Repeats this for each allocation of `change`: makes a new `Object`, calls `change` so that this allocation
/// fails, and then calls `check`.
template <typename Object, typename Change, typename Check>
void at_each_allocation(Change change, Check check) {
  long failed = 1;
  for (long count = 0; failed > 0; ++count) {
    BOOST_TEST_CONTEXT("allocation " << count) {
      Object object;
      fail_allocations(count, 1);
      try {
        change(object);
      } catch (const std::bad_alloc&) {
        BOOST_TEST(end_failures() == 1);
        check(object);
        continue;
      }
      failed = end_failures();
      check(object);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_process_that_cannot_keep_who_is_to_grant_its_lease_does_not_grant_it_to_itself) {
  struct Held : view::Lease {
    Held() : Lease(seconds(1)) {
      begin_view(view::view_of(5, {1, 2}), view::MemberId{1});
      asked(7, Time{100});
      granted(view::MemberId{2}, 7);
    }
  };
  const view::View next = view::view_of(6, {1, 2, 3});
  at_each_allocation<Held>([&](Held& held) { held.begin_view(next, view::MemberId{1}); },
                           [](Held& held) {
                             held.asked(8, Time{200});
                             BOOST_TEST((held.granted_until() == Time{100} + seconds(1)));
                           });
}

BOOST_AUTO_TEST_CASE(a_view_is_known_whole_or_not_at_all) {
  const Bytes later = view::encode(view::view_of(6, {1, 2}));
  at_each_allocation<view::OfThree>(
      [&](view::OfThree& process) {
        static_cast<void>(process.core.on_message(later, {view::MemberId{2}, {}, true}, process.now));
      },
      [](view::OfThree& process) {
        const view::View& view = process.core.view();
        BOOST_TEST((view.epoch == Epoch{5} ? view.members.size() == 3 : view == view::view_of(6, {1, 2})));
      });
}

BOOST_DATA_TEST_CASE(whichever_allocation_fails_a_view_is_whole_or_the_membership_ends_and_its_lease_with_it,
                     boost::unit_test::data::make({1L, rdmc::testing::kAllOfThem}), failing) {
  const long step = all_or(1L, 16L);
  bool has_ended = false, has_failed = true;
  for (long count = 0; has_failed; count += step) {
    BOOST_TEST_CONTEXT("allocation " << count) {
      Member member;
      member.change_view(count, failing);
      const auto is_there = [&] { return member.installed && member.installed->epoch == Epoch{2}; };
      BOOST_TEST_REQUIRE(member.events.wait([&] { return is_there() || member.removed > 0; }));
      member.loop->call([&] {
        has_failed = end_failures() > 0;
        const view::View& view = member.membership->view().view();
        BOOST_TEST((value_of(view.epoch) == view.members.size()));
        const Counters counters = member.membership->counters();
        BOOST_TEST(counters.ended_without_memory == static_cast<std::uint64_t>(member.removed));
        if (member.removed == 0) return;
        has_ended = true;
        BOOST_TEST(member.removed == 1);
        for (const std::uint64_t epoch : {1, 2}) BOOST_TEST(!member.membership->holds_lease(Epoch{epoch}));
      });
    }
  }
  BOOST_TEST(has_ended);
}

}  // namespace
}  // namespace rdmc::membership
