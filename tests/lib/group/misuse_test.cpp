// What an application can do wrong, and what it may do that looks wrong: named errors, and nothing else is
// lost.
#include <boost/test/unit_test.hpp>

#include "tests/lib/group/sim_members.hpp"

using namespace rdmc;
using namespace rdmc::group;

namespace {

constexpr Time kLimit{60'000'000'000};
GroupConfig group_of(std::uint32_t members) {
  return {.members = first_peers(members), .block_bytes = 16 * 1024};
}

template <typename T>
bool failed_with(const Result<T>& result, Errc code) {
  return !result && result.error().code == code;
}

/// Claims what it is told to.
class LyingStore final : public Store {
 public:
  LyingStore(std::span<std::byte> memory, std::uint64_t slots) : memory_(memory), slots_(slots) {}
  std::span<std::byte> memory() override { return memory_; }
  std::uint64_t slots() const override { return slots_; }
  Result<std::uint64_t> available() override { return slots_; }
  void arrived(std::uint64_t, std::uint32_t) override {}
  Result<void> poll_consumed(std::vector<std::uint64_t>&) override { return {}; }
  void released(std::uint64_t) override {}

 private:
  std::span<std::byte> memory_;
  std::uint64_t slots_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_send_that_was_refused_leaves_no_trace) {
  SimGroup group(21, group_of(3));
  auto small = *memory::Arena::make(4096);
  LyingStore store(small.bytes(), 64), empty({}, 0), vast(small.bytes(), std::uint64_t{1} << 60);
  for (Store* bad : {&store, &empty, &vast})
    for (const auto plan : {std::optional<relay::MessagePlan>{{relay::Algorithm::chain, 4096}}, {}})
      BOOST_TEST(failed_with(group.root().group().send(*bad, 1 << 20, plan), Errc::invalid_argument));
  BOOST_TEST(failed_with(group.root().group().send(store, UINT64_MAX), Errc::invalid_argument));
  group.send(50'000);
  BOOST_TEST(!group.send_failed);
  BOOST_TEST(group.run_to_completion(kLimit));
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_AUTO_TEST_CASE(a_store_that_is_too_small_is_this_members_own_fault_and_not_its_sources) {
  SimGroup group(22, group_of(2));
  auto small = *memory::Arena::make(4096);
  LyingStore store(small.bytes(), 64);
  group[1].choose_store = [&](std::uint64_t, std::uint64_t) { return &store; };
  group.send(1 << 20);
  group.simulation.run_until(Time{10'000'000});
  BOOST_TEST(group[1].failures == 1);
  BOOST_TEST(!group[1].failed_peer.has_value());
  BOOST_TEST(static_cast<int>(group[1].failure.code) == static_cast<int>(Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(a_group_may_be_ended_in_every_upcall) {
  {
    SimGroup group(23, group_of(3));
    group[1].choose_store = [&](std::uint64_t, std::uint64_t) {
      group[1].group().end({Errc::cancelled, "over"});
      return nullptr;
    };
    group.send(100'000);
    group.simulation.run_until(Time{20'000'000});
    BOOST_TEST(group[1].announced.size() == 1u);
  }
  for (const bool at_delivered : {true, false}) {
    SimGroup group(24, group_of(3));
    (at_delivered ? group[1].on_delivered : group[1].on_completed) = [&] {
      group[1].group().end({Errc::cancelled, "over"});
    };
    for (int i = 0; i < 3; ++i) group.send(100);
    group.simulation.run_until(Time{20'000'000});
    BOOST_TEST((at_delivered ? group[1].delivered_messages : group[1].completed_messages).size() == 1u);
  }
  SimGroup group(25, group_of(3));
  group[1].on_failed = [&] { group[1].group().end({Errc::cancelled, "over"}); };
  group.send(2 << 20);
  group.simulation.run_until(Time{300'000});
  group.simulation.kill(group.root().process());
  group.simulation.kill(group[2].process());
  group.simulation.run_until(Time{3'000'000'000});
  BOOST_TEST(group[1].failures <= 1);
}

BOOST_AUTO_TEST_CASE(an_ended_group_refuses_every_call_by_name) {
  SimGroup group(26, group_of(3));
  group[1].accept_at_once = false;
  group.send(100'000);
  group.simulation.run_until(Time{5'000'000});
  BOOST_REQUIRE(group[1].announced.contains(0));
  group[1].group().end({Errc::cancelled, "over"});
  group.root().group().end({Errc::cancelled, "over"});
  Store& store = group[1].store_for(0, 100'000);
  BOOST_TEST(failed_with(group[1].group().accept(0, store), Errc::peer_failed));
  BOOST_TEST(failed_with(group.root().group().send(store, 100'000), Errc::peer_failed));
  group[1].group().end({Errc::cancelled, "over"});
}
