// Tests properties that only shm has: how its queue pairs connect, how payload is copied, how the end of a
// peer is noticed, and how the fabric sleeps.
#include "dataplane/fabric/shm/shm_fabric.hpp"

#include <sys/mman.h>

#include <boost/test/unit_test.hpp>
#include <thread>

#include "dataplane/fabric/shm/copy.hpp"
#include "tests/dataplane/fabric/shm/shm_pair.hpp"

BOOST_AUTO_TEST_SUITE(shm_fabric_test)

using namespace rdmc;
using namespace rdmc::fabric;
using testing::open_shm_fabric;
using testing::ShmPair;

namespace {

std::vector<std::byte> pattern(std::size_t size) {
  Random random(size);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

/// Sends `bytes` from end 0. Returns the counters of end 1, which show how the bytes were copied.
ShmFabricCounters send(ShmPair& pair, std::span<const std::byte> bytes) {
  std::vector<std::byte> receive(bytes.size());
  BOOST_REQUIRE(pair.queue_pair(1).post_receive({.work_id = 1, .bytes = receive}));
  BOOST_REQUIRE(pair.queue_pair(0).post_send({.work_id = 2, .bytes = bytes}));
  BOOST_REQUIRE(pair.run_until_completed(1, pair.completions(1).size() + 1));
  BOOST_TEST(std::ranges::equal(receive, bytes));
  ShmFabricCounters both = pair.fabric(1).counters();
  both.bytes_copied += pair.fabric(0).counters().bytes_copied;
  return both;
}

}  // namespace

BOOST_AUTO_TEST_CASE(payload_in_an_arena_crosses_with_one_copy) {
  ShmPair pair;
  constexpr std::size_t kBytes = 5 << 20;
  const auto arena = *pair.fabric(0).make_arena(kBytes);
  std::ranges::copy(pattern(kBytes), arena.bytes().begin());
  const auto counters = send(pair, arena.bytes().subspan(123, kBytes - 200));
  BOOST_TEST(counters.bytes_from_arenas == kBytes - 200);
  BOOST_TEST(counters.bytes_copied == kBytes - 200);
}

BOOST_AUTO_TEST_CASE(both_copies_copy_any_length_at_any_alignment_and_nothing_beside) {
  Random random(1);
  const auto source = pattern(20'000);
  for (const auto copy : {shm::copy_past_cache, shm::copy_through_cache}) {
    for (int i = 0; i < 2000; ++i) {
      const auto from = std::span(source).subspan(random.below(100), random.below(i % 2 == 0 ? 600 : 19'000));
      std::vector<std::byte> target(20'000);
      const auto to = std::span(target).subspan(random.below(100), from.size());
      copy(to, from);
      BOOST_REQUIRE(std::ranges::equal(to, from));
      BOOST_REQUIRE(std::count(target.data(), to.data(), std::byte{0}) == to.data() - target.data());
      BOOST_REQUIRE(std::ranges::all_of(std::span(to.data() + to.size(), target.data() + target.size()),
                                        [](std::byte b) { return b == std::byte{0}; }));
    }
  }
  BOOST_TEST(shm::cached_bytes() >= 64u << 10);
}

BOOST_AUTO_TEST_CASE(payload_anywhere_else_crosses_with_one_copy_of_the_kernels_or_with_two) {
  const auto bytes = pattern(3'000'001);
  for (const bool permitted : {true, false}) {
    ShmPair pair({}, permitted);
    send(pair, std::span(bytes).first(10));  // After this, each side has mapped the memory of the other one.
    const std::uint64_t before = pair.fabric(1).counters().bytes_from_processes;
    const auto counters = send(pair, bytes);
    BOOST_TEST(counters.bytes_from_processes - before == (permitted ? bytes.size() : 0));
    BOOST_TEST(counters.bytes_copied - 20 == bytes.size() * (permitted ? 1 : 2));
  }
}

BOOST_AUTO_TEST_CASE(other_memory_at_the_addresses_of_an_arena_that_is_gone_is_not_taken_for_it) {
  ShmPair pair;
  auto arena = *pair.fabric(0).make_arena(1 << 16);
  send(pair, arena.bytes());
  const auto where = arena.bytes();
  arena = {};
  void* const again = mmap(where.data(), where.size(), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  BOOST_REQUIRE(again == where.data());
  std::ranges::copy(pattern(where.size()), where.begin());
  send(pair, where);
  munmap(again, where.size());
}

BOOST_AUTO_TEST_CASE(works_posted_before_the_two_have_met_wait_for_it) {
  for (const std::size_t late : {0U, 1U}) {
    std::array<std::unique_ptr<ShmFabric>, 2> fabrics{open_shm_fabric(), open_shm_fabric()};
    std::array<std::unique_ptr<QueuePair>, 2> pairs;
    for (std::size_t i = 0; i < 2; ++i) pairs[i] = *fabrics[i]->create_queue_pair({});
    std::vector<std::byte> receive(100'000);
    const auto bytes = pattern(receive.size());
    BOOST_TEST((pairs[0]->state() == QueuePairState::reset));
    BOOST_TEST(!pairs[0]->post_send({.bytes = bytes}));
    BOOST_REQUIRE(pairs[late]->post_receive({.work_id = 1, .bytes = receive}));
    BOOST_REQUIRE(pairs[1 - late]->connect(pairs[late]->local_blob()));
    BOOST_REQUIRE(pairs[1 - late]->post_send({.work_id = 1, .bytes = bytes}));
    const auto turn = [&] {
      for (const auto& fabric : fabrics) fabric->progress(monotonic_now());
    };
    for (const Time until = monotonic_now() + milliseconds(20); monotonic_now() < until;) turn();
    BOOST_REQUIRE(pairs[late]->connect(pairs[1 - late]->local_blob()));
    Completion done;
    for (const Time until = monotonic_now() + seconds(10);
         monotonic_now() < until && pairs[late]->poll_completions({&done, 1}) == 0;)
      turn();
    BOOST_TEST((receive == bytes));
  }
}

BOOST_AUTO_TEST_CASE(who_cannot_share_memory_is_refused_by_name) {
  auto fabric = open_shm_fabric();
  auto queue_pair = *fabric->create_queue_pair({});
  const auto refused = [&](const shm::ShmBlob& blob) {
    const auto connected = queue_pair->connect(shm::encode(blob));
    BOOST_REQUIRE(!connected);
    return connected.error().code;
  };
  auto blob = *shm::decode_shm_blob((*fabric->create_queue_pair({}))->local_blob());
  blob.host_id += 1;
  BOOST_TEST((refused(blob) == Errc::unsupported));
  blob.host_id -= 1;
  blob.user += 1;
  BOOST_TEST((refused(blob) == Errc::unsupported));
  BOOST_TEST((refused(*shm::decode_shm_blob(queue_pair->local_blob())) == Errc::invalid_argument));
  BOOST_TEST((queue_pair->connect(std::vector<std::byte>(7)).error().code == Errc::protocol_error));
  BOOST_TEST((ShmFabric::open({.entropy = [] { return 1U; }}).error().code == Errc::unsupported));
  for (const QueuePairOptions& bad : {QueuePairOptions{.send_depth = 0}, QueuePairOptions{.receive_depth = 0},
                                      QueuePairOptions{.send_depth = UINT32_MAX}})
    BOOST_TEST((fabric->create_queue_pair(bad).error().code == Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(a_process_with_the_wrong_token_gets_nothing) {
  ShmPair pair;
  auto blob = *shm::decode_shm_blob(pair.queue_pair(1).local_blob());
  auto foreign = open_shm_fabric();
  auto theirs = *foreign->create_queue_pair({});
  blob.queue_pair.fill(std::byte{0xFF});  // The foreign queue pair dials, because its token is smaller.
  BOOST_REQUIRE(theirs->connect(shm::encode(blob)));
  BOOST_TEST(pair.run_until([&] {
    foreign->progress(monotonic_now());
    return theirs->state() == QueuePairState::error;
  }));
  send(pair, pattern(100));  // The two connected queue pairs still work.
}

BOOST_AUTO_TEST_CASE(a_peer_that_leaves_in_good_order_disturbs_only_who_has_more_for_it) {
  ShmPair pair;
  send(pair, pattern(100));
  pair.run_until_completed(0, 1);
  pair.members[1].queue_pair.reset();
  pair.run_until([] { return false; }, milliseconds(20));
  BOOST_TEST((pair.queue_pair(0).state() == QueuePairState::ready));
  pair.completions(0).clear();
  BOOST_REQUIRE(pair.queue_pair(0).post_send({.work_id = 9, .bytes = {}}));
  BOOST_REQUIRE(pair.run_until_completed(0, 1));
  BOOST_TEST((pair.completions(0)[0].status == WorkStatus::retry_exceeded));
}

BOOST_AUTO_TEST_CASE(a_peer_that_takes_no_turn_is_given_up_after_the_patience_and_not_before) {
  ShmPair pair({.ack_timeout = milliseconds(40), .retry_limit = 1});
  send(pair, pattern(100));
  pair.run_until_completed(0, 1);
  pair.completions(0).clear();
  const Time began = monotonic_now();
  BOOST_REQUIRE(pair.queue_pair(0).post_send({.work_id = 9, .bytes = {}}));
  while (pair.completions(0).empty() && monotonic_now() < began + seconds(10)) {
    pair.fabric(0).wait(pair.fabric(0).next_deadline());  // Only the deadline wakes the fabric.
    pair.turn(0);
  }
  BOOST_REQUIRE(!pair.completions(0).empty());
  BOOST_TEST((pair.completions(0)[0].status == WorkStatus::retry_exceeded));
  BOOST_TEST((monotonic_now() - began >= milliseconds(80)));
  BOOST_TEST((monotonic_now() - began < seconds(2)));
}

BOOST_AUTO_TEST_CASE(a_peer_without_a_receive_is_waited_for_without_end_but_only_while_it_takes_turns) {
  ShmPair pair({.ack_timeout = milliseconds(40), .retry_limit = 1, .rnr_patience = {}});
  BOOST_REQUIRE(pair.queue_pair(0).post_send({.work_id = 9, .bytes = {}}));
  BOOST_TEST(!pair.run_until([&] { return !pair.completions(0).empty(); }, milliseconds(300)));
  // The peer plans a turn early enough to show that it is alive.
  BOOST_TEST((pair.fabric(1).next_deadline() < monotonic_now() + milliseconds(20)));
  const Time stopped = monotonic_now();
  while (pair.completions(0).empty() && monotonic_now() < stopped + seconds(10)) {
    pair.fabric(0).wait(pair.fabric(0).next_deadline());
    pair.turn(0);
  }
  BOOST_REQUIRE(!pair.completions(0).empty());
  BOOST_TEST((pair.completions(0)[0].status == WorkStatus::retry_exceeded));
}

// The queue pair knows only the times that the test passes to progress().
BOOST_AUTO_TEST_CASE(silence_counts_while_the_fabric_takes_turns_and_not_while_it_is_starved_itself) {
  for (const bool peer_runs : {true, false}) {
    ShmPair pair({.ack_timeout = milliseconds(40), .retry_limit = 1});
    send(pair, pattern(100));
    pair.run_until_completed(0, 1);
    pair.completions(0).clear();
    BOOST_REQUIRE(pair.queue_pair(0).post_write({.work_id = 9, .bytes = {}}));
    Time now = monotonic_now();
    const auto look_after = [&](Duration time) {
      now = now + time;
      pair.fabric(0).progress(now);
      return pair.queue_pair(0).state() == QueuePairState::ready;
    };
    for (const Duration starved : {Duration{}, seconds(100), seconds(2), milliseconds(21)})
      BOOST_TEST(look_after(starved));
    if (peer_runs) {
      pair.turn(1);
      for (int i = 0; i < 5; ++i) BOOST_TEST(look_after(seconds(1)));
      BOOST_REQUIRE(pair.run_until_completed(0, 1));
      BOOST_TEST((pair.completions(0)[0].status == WorkStatus::success));
    } else {
      BOOST_TEST(!look_after(milliseconds(20)));  // The timeout of 80 ms ends here.
    }
  }
}

BOOST_AUTO_TEST_CASE(a_receive_that_comes_after_a_starvation_is_not_late) {
  ShmPair pair({.rnr_patience = milliseconds(50)});
  BOOST_REQUIRE(pair.queue_pair(0).post_send({.work_id = 9, .bytes = {}}));
  pair.run_until([] { return false; }, milliseconds(5));  // The peer has seen the request.
  const Time now = monotonic_now() + seconds(100);
  pair.fabric(0).progress(now);
  pair.fabric(0).progress(now + seconds(1));
  BOOST_REQUIRE(pair.queue_pair(1).post_receive({.work_id = 1, .bytes = {}}));
  pair.turn(1);
  BOOST_REQUIRE(pair.run_until_completed(0, 1));
  BOOST_TEST((pair.completions(0)[0].status == WorkStatus::success));
}

BOOST_AUTO_TEST_CASE(arenas_come_and_go_without_end_and_more_than_a_peer_maps_may_be_there_at_once) {
  constexpr std::size_t kBytes = 8192, kArenas = 1100, kMapped = 1024;
  ShmPair pair;
  for (std::size_t i = 0; i < kArenas; ++i) {
    const auto arena = *pair.fabric(0).make_arena(kBytes);
    send(pair, arena.bytes());
  }
  BOOST_TEST(pair.fabric(1).counters().bytes_from_arenas == kArenas * kBytes);
  std::vector<memory::Arena> all;
  for (std::size_t i = 0; i < kArenas; ++i) {
    all.push_back(*pair.fabric(0).make_arena(kBytes));
    send(pair, all.back().bytes());
  }
  BOOST_TEST(pair.fabric(1).counters().bytes_from_arenas == (kArenas + kMapped) * kBytes);
}

BOOST_AUTO_TEST_CASE(an_engine_that_sleeps_is_woken_by_what_comes_and_by_wake) {
  ShmPair pair;
  send(pair, pattern(10));
  pair.turn();
  const Time began = monotonic_now();
  std::vector<std::byte> receive(50);
  const auto bytes = pattern(50);
  BOOST_REQUIRE(pair.queue_pair(1).post_receive({.work_id = 1, .bytes = receive}));
  const std::size_t before = pair.completions(1).size();
  std::thread sleeper([&] {
    while (pair.completions(1).size() == before) {
      pair.fabric(1).wait(began + seconds(8));
      pair.turn(1);
    }
  });
  // After this pause, the thread is usually asleep. The test must also pass if it is awake.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  BOOST_REQUIRE(pair.queue_pair(0).post_send({.work_id = 2, .bytes = bytes}));
  pair.fabric(0).progress(monotonic_now());
  sleeper.join();
  BOOST_TEST((receive == bytes));
  std::thread waker([&] { pair.fabric(1).wake(); });
  pair.fabric(1).wait(began + seconds(8));
  waker.join();
  BOOST_TEST((monotonic_now() - began < seconds(1)));
}

BOOST_AUTO_TEST_CASE(an_applications_loop_sleeps_no_longer_than_a_doorbell_may_be_silenced) {
  ShmPair pair;
  send(pair, pattern(10));
  Time until{};
  for (const Time end = monotonic_now() + seconds(10); until == Time{} && monotonic_now() < end;) {
    pair.turn();
    until = pair.fabric(1).prepare_wait(Time::never());
    pair.fabric(1).finish_wait();
  }
  BOOST_TEST((until > Time{}));
  BOOST_TEST((until <= monotonic_now() + shm::Doorbell::kLongestSleep));
}

BOOST_AUTO_TEST_SUITE_END()
