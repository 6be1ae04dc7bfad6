// Tests many messages in progress at the same time, and members that lag. Neither of these is an error.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "tests/lib/group/sim_members.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(queueing_test)

using namespace rdmc;
using namespace rdmc::group;
namespace bdata = boost::unit_test::data;

namespace {

constexpr Time kLimit{60'000'000'000};

/// A store whose disk writes nothing while `held` is true.
class HeldStore final : public Store {
 public:
  HeldStore(Store& below, const bool& held) : below_(below), held_(held) {}
  std::span<std::byte> memory() override { return below_.memory(); }
  std::uint64_t slots() const override { return below_.slots(); }
  Result<std::uint64_t> available() override { return below_.available(); }
  void arrived(std::uint64_t block, std::uint32_t bytes) override { below_.arrived(block, bytes); }
  Result<void> poll_consumed(std::vector<std::uint64_t>& blocks) override {
    return held_ ? Result<void>{} : below_.poll_consumed(blocks);
  }
  void released(std::uint64_t limit) override { below_.released(limit); }

 private:
  Store& below_;
  const bool& held_;
};

bool nobody_failed(const SimGroup& group) {
  return std::ranges::all_of(group.members, [](const auto& m) { return m->failures == 0; });
}

}  // namespace

BOOST_DATA_TEST_CASE(a_member_with_a_slow_disk_may_lag_by_many_messages,
                     bdata::make({2, 3, 8}) * bdata::make({1, 50'000}), members, bytes) {
  SimGroup group(11, {.members = first_peers(static_cast<std::size_t>(members)), .block_bytes = 16 * 1024});
  SimMember& slow = group[1];
  bool held = true;
  std::vector<std::unique_ptr<Store>> stores;
  slow.choose_store = [&](std::uint64_t message, std::uint64_t length) {
    stores.push_back(std::make_unique<HeldStore>(slow.store_for(message, length), held));
    return stores.back().get();
  };
  for (int i = 0; i < all_or(150, 60); ++i) group.send(static_cast<std::uint64_t>(bytes));
  group.simulation.run_until(Time{200'000'000});
  BOOST_TEST(nobody_failed(group));
  BOOST_TEST(slow.delivered_messages.empty());
  held = false;
  slow.wake();
  BOOST_TEST(group.run_to_completion(kLimit));
  BOOST_TEST(nobody_failed(group));
  BOOST_TEST(group.everybody_has_everything());
}

/// If the source of the first block depends on the length, each message can have a different first source.
BOOST_DATA_TEST_CASE(messages_whose_first_sources_differ_queue_behind_a_slow_disk,
                     bdata::make({2, 5, 9, 12}) * bdata::make({true, false}), members, announced) {
  constexpr std::uint32_t kBlock = 4096;
  SimGroup group(15, {.members = first_peers(static_cast<std::size_t>(members)),
                      .algorithm = relay::Algorithm::circulant,
                      .block_bytes = kBlock,
                      .announce_lengths = announced});
  SimMember& slow = group[group.members.size() - 1];
  bool held = true;
  std::vector<std::unique_ptr<Store>> stores;
  const auto held_store = [&](std::uint64_t message, std::uint64_t length) {
    stores.push_back(std::make_unique<HeldStore>(slow.store_for(message, length), held));
    return stores.back().get();
  };
  slow.choose_store = held_store;
  for (std::uint64_t m = 0; m < all_or(300U, 90U); ++m) {
    const std::uint64_t bytes = m % 10 * kBlock + 1;
    for (auto& member : group.members) {
      if (announced || member.get() == &group.root()) continue;
      Store& store = member.get() == &slow ? *held_store(m, bytes) : member->store_for(m, bytes);
      BOOST_REQUIRE(member->group().receive(store, bytes));
    }
    group.send(bytes);
  }
  group.simulation.run_until(Time{200'000'000});
  BOOST_TEST(nobody_failed(group));
  BOOST_TEST(slow.delivered_messages.empty());
  held = false;
  slow.wake();
  BOOST_TEST(group.run_to_completion(kLimit));
  BOOST_TEST(!group.send_failed);
  BOOST_TEST(nobody_failed(group));
  BOOST_TEST(group.everybody_has_everything());
  for (auto& member : group.members) {
    const GroupCounters& counters = member->group().counters();
    // No arena was granted, so no first block had to be moved.
    BOOST_TEST(counters.first_blocks_copied + counters.first_blocks_in_place == 0u);
  }
}

BOOST_DATA_TEST_CASE(hundreds_of_messages_of_known_length_queue_and_a_member_may_be_late_with_its_receives,
                     bdata::make({2, 9}) * bdata::make({1, 40}), members, blocks) {
  constexpr std::uint32_t kBlock = 4096;
  // Either there are more messages than a queue pair has receives, or each message has many blocks.
  const std::uint64_t messages = blocks == 1 ? 600 : all_or(200, 50);
  const std::uint64_t bytes = static_cast<std::uint64_t>(blocks) * kBlock - 7;
  SimGroup group(12, {.members = first_peers(static_cast<std::size_t>(members)),
                      .block_bytes = kBlock,
                      .announce_lengths = false});
  const auto receive_all = [&](SimMember& member) {
    for (std::uint64_t m = 0; m < messages; ++m)
      BOOST_REQUIRE(member.group().receive(member.store_for(m, bytes), bytes));
    member.wake();
  };
  for (std::size_t rank = 2; rank < group.members.size(); ++rank) receive_all(group[rank]);
  for (std::uint64_t m = 0; m < messages; ++m) group.send(bytes);
  group.simulation.run_until(Time{50'000'000});
  BOOST_TEST(nobody_failed(group));
  receive_all(group[1]);
  BOOST_TEST(group.run_to_completion(kLimit));
  BOOST_TEST(!group.send_failed);
  BOOST_TEST(nobody_failed(group));
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_AUTO_TEST_CASE(more_writes_in_flight_than_a_queue_pair_holds_wait_for_their_turn) {
  SimGroup group(13, {.members = first_peers(3), .block_bytes = 4096, .max_writes_in_flight = 1000});
  group.send(1200 * 4096);
  BOOST_TEST(group.run_to_completion(kLimit));
  BOOST_TEST(nobody_failed(group));
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_AUTO_TEST_CASE(the_end_of_one_message_costs_the_next_none_of_its_predictions) {
  SimGroup group(14, {.members = first_peers(2), .block_bytes = 64 * 1024, .announce_lengths = false},
                 {.mtu = 9000});
  for (std::uint64_t m = 0; m < 20; ++m) {
    BOOST_REQUIRE(group[1].group().receive(group[1].store_for(m, 128 * 1024), 128 * 1024));
    group.send(128 * 1024);
  }
  BOOST_REQUIRE(group.run_to_completion(kLimit));
  const auto& counters = group[1].fabric().counters();
  BOOST_TEST(counters.packets_repaired * 10 < counters.packets_in_place,
             counters.packets_repaired << " repaired, " << counters.packets_in_place << " in place");
}

BOOST_DATA_TEST_CASE(an_arena_that_is_still_being_read_is_not_given_to_the_next_message,
                     bdata::xrange(1, all_or(13, 4)), seed) {
  SimGroup group(static_cast<std::uint64_t>(seed), {.members = first_peers(4), .block_bytes = 64 * 1024});
  group.network.set_faults({.loss = 100'000});
  for (std::size_t rank = 1; rank < 4; ++rank) group[rank].accept_at_once = false;
  std::vector<std::uint64_t> accepted(4);
  for (int i = 0; i < 6; ++i) group.send(64 * 1024);
  const auto anybody_waits = [&] {
    for (std::size_t rank = 1; rank < 4; ++rank)
      if (group[rank].announced.size() > accepted[rank]) return true;
    return false;
  };
  while (group.simulation.run_until(anybody_waits, group.simulation.now() + seconds(1))) {
    group.simulation.run_until(group.simulation.now() + microseconds(400));
    for (std::size_t rank = 1; rank < 4; ++rank) {
      for (; group[rank].announced.size() > accepted[rank]; ++accepted[rank]) {
        BOOST_REQUIRE(
            group[rank].group().accept(accepted[rank], group[rank].store_for(accepted[rank], 64 * 1024)));
        group[rank].wake();
      }
    }
  }
  BOOST_TEST(group.run_to_completion(kLimit));
  BOOST_TEST(group.everybody_has_everything());
}

BOOST_AUTO_TEST_SUITE_END()
