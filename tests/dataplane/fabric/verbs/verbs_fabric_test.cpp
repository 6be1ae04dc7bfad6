// Tests the verbs provider on a real device: all data must arrive once and at the right address, and every
// wait must end.
#include "dataplane/fabric/verbs/verbs_fabric.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <thread>

#include "tests/dataplane/fabric/verbs/verbs_pair.hpp"

using namespace rdmc;
using namespace rdmc::fabric;
using namespace rdmc::fabric::testing;

BOOST_AUTO_TEST_CASE(sends_arrive_in_posted_receives_with_their_immediates) {
  // Tests a queue pair with its own receive queue, and a queue pair with the shared one.
  for (const std::uint32_t largest : {0U, 200U}) {
    Pair pair({.receive_depth = 64, .largest_receive = largest});
    std::vector<std::vector<std::byte>> sent, received;
    for (std::size_t i = 0; i < 64; ++i) {
      sent.push_back(random_bytes(i * 3, i));
      received.emplace_back(200);
      BOOST_REQUIRE(pair[1].queue_pair->post_receive({.work_id = i, .bytes = received[i]}));
    }
    for (std::size_t i = 0; i < 64; ++i) {
      SendRequest request{.work_id = 100 + i, .bytes = sent[i]};
      if (i % 2 == 1) request.immediate = static_cast<std::uint32_t>(0xABCD0000 + i);
      BOOST_REQUIRE(pair[0].queue_pair->post_send(request));
    }
    BOOST_REQUIRE(pair.run_until_done(1, 64));
    BOOST_REQUIRE(pair.run_until_done(0, 64));
    for (std::size_t i = 0; i < 64; ++i) {
      const Completion& in = pair[1].done[i];
      BOOST_TEST((in.status == WorkStatus::success && in.kind == WorkKind::receive));
      BOOST_TEST(in.work_id == i);
      BOOST_REQUIRE(in.byte_count == sent[i].size());
      BOOST_TEST((std::ranges::equal(std::span(received[i]).first(in.byte_count), sent[i])));
      BOOST_TEST(in.immediate.has_value() == (i % 2 == 1));
      if (in.immediate) BOOST_TEST(*in.immediate == 0xABCD0000 + i);
      BOOST_TEST(pair[0].done[i].work_id == 100 + i);
      BOOST_TEST((pair[0].done[i].kind == WorkKind::send && pair[0].done[i].status == WorkStatus::success));
    }
    BOOST_TEST(pair[1].fabric->counters().shared_receives == (largest == 0 ? 0u : 64u));
  }
}

BOOST_AUTO_TEST_CASE(writes_land_at_their_place_and_reads_fetch_it_again) {
  Pair pair({.largest_receive = 64});
  const auto source = random_bytes(1 << 20);
  std::vector<std::byte> target(1 << 20), back(1 << 20);
  const auto region = pair[1].fabric->register_memory(target, MemoryUse::general, kAll).value();
  BOOST_TEST(region->remote_address() != reinterpret_cast<std::uint64_t>(target.data()));
  constexpr std::array<std::size_t, 7> kSizes{0, 1, 63, 64, 4097, 65'536, 700'001};
  std::size_t at = 0;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    BOOST_REQUIRE(pair[1].queue_pair->post_receive({.work_id = i, .bytes = {}}));
    const WriteRequest write{.work_id = i,
                             .bytes = std::span(source).subspan(at, kSizes[i]),
                             .remote_address = region->remote_address() + at,
                             .remote_key = region->remote_key(),
                             .immediate = static_cast<std::uint32_t>(i)};
    BOOST_REQUIRE(pair[0].queue_pair->post_write(write));
    at += kSizes[i];
  }
  BOOST_REQUIRE(pair.run_until_done(1, kSizes.size()));
  BOOST_REQUIRE(pair.run_until_done(0, kSizes.size()));
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    BOOST_TEST((pair[1].done[i].kind == WorkKind::receive_write_immediate));
    BOOST_TEST(pair[1].done[i].byte_count == kSizes[i]);
    BOOST_TEST(pair[1].done[i].immediate.value() == i);
  }
  BOOST_TEST((std::ranges::equal(std::span(target).first(at), std::span(source).first(at))));
  BOOST_REQUIRE(pair[0].queue_pair->post_read({.work_id = 77,
                                               .bytes = std::span(back).first(at),
                                               .remote_address = region->remote_address(),
                                               .remote_key = region->remote_key()}));
  BOOST_REQUIRE(pair.run_until_done(0, kSizes.size() + 1));
  BOOST_TEST((pair[0].done.back().kind == WorkKind::read));
  BOOST_TEST(pair[0].done.back().byte_count == at);
  BOOST_TEST((std::ranges::equal(std::span(back).first(at), std::span(source).first(at))));
}

BOOST_AUTO_TEST_CASE(atomics_act_once_and_tell_the_value_before) {
  Pair pair;
  alignas(8) std::array<std::uint64_t, 2> words{40, 7};
  const auto region = pair[1]
                          .fabric
                          ->register_memory(std::as_writable_bytes(std::span(words)), MemoryUse::general,
                                            RemoteAccess::atomic)
                          .value();
  for (std::uint64_t i = 0; i < 10; ++i)
    BOOST_REQUIRE(pair[0].queue_pair->post_atomic({.work_id = i,
                                                   .remote_address = region->remote_address(),
                                                   .remote_key = region->remote_key(),
                                                   .swap_or_add = 2}));
  for (const std::uint64_t compare : {7, 7})  // The second compare-and-swap finds another value.
    BOOST_REQUIRE(pair[0].queue_pair->post_atomic({.work_id = 10,
                                                   .kind = AtomicRequest::Kind::compare_swap,
                                                   .remote_address = region->remote_address() + 8,
                                                   .remote_key = region->remote_key(),
                                                   .swap_or_add = 99,
                                                   .compare = compare}));
  BOOST_REQUIRE(pair.run_until_done(0, 12));
  for (std::uint64_t i = 0; i < 10; ++i) BOOST_TEST(pair[0].done[i].original == 40 + 2 * i);
  BOOST_TEST(pair[0].done[10].original == 7u);
  BOOST_TEST(pair[0].done[11].original == 99u);
  BOOST_TEST(words[0] == 60u);
  BOOST_TEST(words[1] == 99u);
}

BOOST_AUTO_TEST_CASE(a_shared_queue_that_runs_empty_delays_senders_and_loses_nothing) {
  constexpr std::uint32_t kMessages = 5'000;  // This is several times the number of shared slots.
  Pair pair({.send_depth = kMessages, .receive_depth = kMessages, .largest_receive = 8});
  std::vector<std::array<std::byte, 8>> rooms(kMessages);
  for (std::uint32_t i = 0; i < kMessages; ++i)
    BOOST_REQUIRE(pair[1].queue_pair->post_receive({.work_id = i, .bytes = rooms[i]}));
  for (std::uint32_t i = 0; i < kMessages; ++i)
    BOOST_REQUIRE(pair[0].queue_pair->post_send({.work_id = i, .bytes = std::as_bytes(std::span(&i, 1))}));
  // Meanwhile neither side takes a turn.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  BOOST_REQUIRE(pair.run_until([&] { return pair[1].done.size() == kMessages; }, seconds(60)));
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    std::uint32_t value = 0;
    std::memcpy(&value, rooms[i].data(), sizeof value);
    BOOST_REQUIRE(value == i);
  }
}

BOOST_AUTO_TEST_CASE(a_thread_that_waits_is_woken_by_what_arrives_and_by_others_and_by_its_deadline) {
  Pair pair;
  const auto message = random_bytes(100);
  std::vector<std::byte> room(100);
  const auto send = [&] {
    BOOST_REQUIRE(pair[1].queue_pair->post_receive({.bytes = room}));
    BOOST_REQUIRE(pair[0].queue_pair->post_send({.bytes = message}));
  };
  send();
  BOOST_REQUIRE(pair.run_until_done(1, 1));  // After this, both queue pairs are connected.
  BOOST_REQUIRE(pair.run_until_done(0, 1));
  pair[1].done.clear();
  send();
  Time start = monotonic_now();
  while (pair[1].done.empty()) {  // The arrival must end the wait.
    pair[1].turn();
    if (pair[1].done.empty()) pair[1].fabric->wait(start + seconds(30));
  }
  BOOST_TEST((monotonic_now() - start).seconds() < 10.0);
  start = monotonic_now();
  std::jthread waker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    pair[1].fabric->wake();
  });
  pair[1].fabric->wait(start + seconds(30));
  BOOST_TEST((monotonic_now() - start).seconds() < 10.0);
  start = monotonic_now();
  pair[1].fabric->wait(start + milliseconds(50));
  BOOST_TEST((monotonic_now() - start).seconds() >= 0.05);
}
