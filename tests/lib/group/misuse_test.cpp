// Tests errors of an application, correct calls that look like errors, and wrong records from a neighbour.
// Each error must have a name, and must have no other effect.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/lib/group/sim_members.hpp"

BOOST_AUTO_TEST_SUITE(misuse_test)

using namespace rdmc;
using namespace rdmc::group;
namespace bdata = boost::unit_test::data;

namespace {

constexpr Time kLimit{60'000'000'000};
GroupConfig group_of(std::uint32_t members) {
  return {.members = first_peers(members), .block_bytes = 16 * 1024};
}

template <typename T>
bool failed_with(const Result<T>& result, Errc code) {
  return !result && result.error().code == code;
}

/// A store that reports the memory and the number of slots that it was given, even if they do not fit
/// together.
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

BOOST_DATA_TEST_CASE(a_send_that_was_refused_leaves_no_trace, bdata::make({false, true}),
                     behind_a_large_one) {
  SimGroup group(21, group_of(3));
  auto small = *memory::Arena::make(4096);
  LyingStore store(small.bytes(), 64), empty({}, 0), vast(small.bytes(), std::uint64_t{1} << 60);
  // After this message, the receivers have granted memory for the first block of the next message.
  if (behind_a_large_one) {
    group.send(1 << 20);
    BOOST_TEST(group.run_to_completion(kLimit));
    group.simulation.run_until(group.simulation.now() + milliseconds(50));
  }
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

BOOST_AUTO_TEST_CASE(a_member_that_another_one_blames_does_not_blame_itself) {
  for (const std::uint32_t blamed : {1U, 2U}) {
    SimGroup group(22, group_of(3));
    group[1].group().on_record(**group[1].peers().link_to(PeerId{0}),
                               End{.failed = Rank{blamed}, .code = Errc::timed_out, .what = "was silent"});
    BOOST_TEST(group[1].failures == 1);
    BOOST_TEST((group[1].failed_peer == (blamed == 1 ? std::nullopt : std::optional(Rank{blamed}))));
    BOOST_TEST((group[1].failure.code == Errc::timed_out));
  }
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

namespace {

/// Returns the configuration of a group whose members get the plan of each message from the root. It has one
/// block size, and all algorithms that need no racks.
GroupConfig automatic_group_of(std::uint32_t members) {
  GroupConfig config = group_of(members);
  config.automatic = relay::AutoConfig{.fixed = {.block_bytes = config.block_bytes}};
  config.confirms = true;
  return config;
}

void tell(SimGroup& group, std::uint32_t from, std::uint32_t to, const Record& record) {
  group[to].group().on_record(**group[to].peers().link_to(PeerId{from}), record);
}

bool blames(SimGroup& group, std::uint32_t reporter, std::uint32_t culprit) {
  const SimMember& member = group[reporter];
  return member.failures == 1 && member.failed_peer == Rank{culprit} &&
         member.failure.code == Errc::protocol_error;
}

relay::BlockGrant some_grant() {
  return {.limit = 1, .remote_address = 4096, .slots = 1, .key = RemoteKey{7}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_announced_to_travel_as_the_group_does_not_is_its_tellers_fault) {
  using enum relay::Algorithm;
  using Plan = std::optional<relay::MessagePlan>;
  for (const Plan plan : {Plan{}, Plan{{chain, 4096}}, Plan{{hybrid, 16384}}, Plan{{host_pipeline, 16384}}}) {
    SimGroup group(27, automatic_group_of(4));
    tell(group, 0, 1, Announcement{.message = 0, .bytes = 100'000, .plan = plan});
    BOOST_TEST(blames(group, 1, 0));
  }
  SimGroup fixed(27, group_of(4)), second(27, automatic_group_of(4)), twice(27, automatic_group_of(4));
  tell(fixed, 0, 1, Announcement{.message = 0, .bytes = 100'000, .plan = {{binomial_pipeline, 16384}}});
  BOOST_TEST(blames(fixed, 1, 0));
  tell(second, 2, 1, Announcement{.message = 0, .bytes = 100'000, .plan = {{chain, 16384}}});
  BOOST_TEST(blames(second, 1, 2));  // In the chain, member 1 gets its blocks from member 0.
  const Announcement good{.message = 0, .bytes = 100'000, .plan = {{chain, 16384}}};
  tell(twice, 0, 1, good);
  BOOST_TEST(twice[1].failures == 0);
  tell(twice, 0, 1, good);
  BOOST_TEST(blames(twice, 1, 0));
}

BOOST_AUTO_TEST_CASE(an_announcement_is_its_first_sources_where_that_depends_on_the_length) {
  GroupConfig config = group_of(9);
  config.algorithm = relay::Algorithm::circulant;
  const relay::Schedule schedule(config.algorithm, Rank{6}, 9);
  const std::uint32_t first = value_of(*schedule.first_source_of(Rank{6}, 1));
  const std::uint32_t other = value_of(*schedule.first_source_of(Rank{6}, 2));
  BOOST_REQUIRE_NE(first, other);
  SimGroup right(30, config), wrong(30, config), ahead(30, config);
  tell(right, first, 6, Announcement{.message = 0, .bytes = config.block_bytes});
  BOOST_TEST(right[6].failures == 0);
  tell(right, other, 6, Announcement{.message = 1, .bytes = 2 * config.block_bytes});
  BOOST_TEST(right[6].failures == 0);
  tell(wrong, other, 6, Announcement{.message = 0, .bytes = config.block_bytes});
  BOOST_TEST(blames(wrong, 6, other));
  relay::BlockGrant grant = some_grant();
  grant.first_only = true;
  const std::uint32_t to = value_of(schedule.destinations().back());
  tell(ahead, to, 6, GrantRecord{0, grant});
  BOOST_TEST(blames(ahead, 6, to));
}

BOOST_AUTO_TEST_CASE(a_grant_that_was_kept_and_is_none_is_its_granters_fault_and_not_the_announcers) {
  SimGroup group(28, automatic_group_of(4));
  tell(group, 3, 1, GrantRecord{0, some_grant()});
  BOOST_TEST(group[1].failures == 0);
  tell(group, 0, 1, Announcement{.message = 0, .bytes = 100'000, .plan = {{relay::Algorithm::chain, 16384}}});
  BOOST_TEST(blames(group, 1, 3));  // In the chain, member 1 sends to member 2.
}

BOOST_AUTO_TEST_CASE(grants_that_come_before_their_message_are_kept_as_far_as_messages_can_be_under_way) {
  SimGroup group(28, automatic_group_of(4));
  for (int again = 0; again < 2000; ++again) tell(group, 2, 1, GrantRecord{5, some_grant()});
  BOOST_TEST(group[1].failures == 0);  // Only the last grant of a message counts.
  for (std::uint64_t message = 0; message < Group::kMessagesInFlight; ++message)
    tell(group, 2, 1, GrantRecord{10 * message + 5, some_grant()});
  BOOST_TEST(group[1].failures == 0);
  tell(group, 3, 1, GrantRecord{7, some_grant()});  // Each neighbour has its own limit.
  BOOST_TEST(group[1].failures == 0);
  tell(group, 2, 1, GrantRecord{6, some_grant()});
  BOOST_TEST(blames(group, 1, 2));
  SimGroup root(29, automatic_group_of(4));
  // The root has not sent the message of this grant.
  tell(root, 2, 0, GrantRecord{0, some_grant()});
  BOOST_TEST(blames(root, 0, 2));
}

BOOST_AUTO_TEST_SUITE_END()
