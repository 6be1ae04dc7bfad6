// Tests a member whose control loop runs out of memory for ever. Its application must learn once that the
// membership has ended, and once that its group has ended. The other members must continue.
#include <boost/test/unit_test.hpp>

#include "tests/failing_memory.hpp"
#include "tests/lib/membership/members.hpp"
#include "tests/sampled.hpp"

using namespace rdmc;
using namespace rdmc::testing;

namespace {

/// A member with a group. When the view with three members is installed, `spared` more allocations of its
/// control loop succeed, and all later ones fail. The allocations of the test itself still succeed.
struct Forgetful {
  Forgetful(const OneStore& store, long spared_allocations) : spared(spared_allocations) {
    MembershipCallbacks on;
    on.installed = [this](const View& view) {
      const bool begins = view.members.size() == 3;
      {
        const MemoryOfTest memory;
        told.tell([&] { members = view.members.size(); });
      }
      if (begins) fail_allocations(spared);
    };
    on.removed = [this](const View& view) {
      has_failed = end_failures() > 0;
      told.tell([&] {
        ++removed;
        last = view;
      });
    };
    membership = Membership::join(options_for(store.address(), "one"), std::move(on)).value();
    MemberGroupCallbacks on_group;
    on_group.continued = [this](const GroupView& view) {
      told.tell([&] { participants = view.members.size(); });
    };
    on_group.ended = [this](const Error& cause) { told.tell([&] { ended.push_back(cause); }); };
    group = membership->create_group(kNumber, {}, std::move(on_group)).value();
  }

  const long spared;
  Told told;
  std::size_t members = 0, participants = 0;
  int removed = 0;
  bool has_failed = false;
  View last;
  std::vector<Error> ended;
  std::unique_ptr<Membership> membership;
  std::unique_ptr<MemberGroup> group;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_end_is_told_once_however_long_the_loop_lacks_memory) {
  for (long spared = 0; spared < 69; spared += all_or(3L, 22L)) BOOST_TEST_CONTEXT("allocation " << spared) {
      const OneStore store;
      Forgetful one(store, spared);
      // This member is the oldest one, so it becomes the root.
      BOOST_TEST_REQUIRE(one.told.wait([&] { return one.members == 1; }));
      Process two(store, "two");
      Part& part = two.make_part();
      BOOST_TEST_REQUIRE(one.told.wait([&] { return one.participants == 2; }));
      BOOST_TEST_REQUIRE(part.is_in(2, one.membership->id()));
      const Process three(store, "three");
      BOOST_TEST_REQUIRE(one.told.wait([&] { return one.members == 3; }));
      BOOST_TEST_REQUIRE(one.told.wait([&] { return one.removed > 0; }));
      BOOST_TEST_REQUIRE(one.told.wait([&] { return !one.ended.empty(); }));
      BOOST_TEST(one.has_failed);
      BOOST_TEST((one.last.epoch == Epoch{} || one.last.find(one.membership->id()) != nullptr));
      BOOST_TEST((one.ended[0].code == Errc::resource_limit));
      BOOST_TEST(two.sees(2));
      BOOST_TEST(part.is_in(1, two.id()));
      one.group.reset();
      one.membership.reset();
      BOOST_TEST(one.removed == 1);
      BOOST_TEST(one.ended.size() == 1U);
    }
}
