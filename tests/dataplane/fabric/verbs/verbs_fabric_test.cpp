// The verbs provider on a real device: two fabrics on the RDMA device that has the address in
// RDMC_VERBS_ADDRESS. Run in the guest of the interop lab, whose Soft-RoCE is one.
#define BOOST_TEST_MODULE verbs_fabric
#include "dataplane/fabric/verbs/verbs_fabric.hpp"

#include <sys/mman.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/random.hpp"
#include "dataplane/fabric/connection_blob.hpp"
#include "dataplane/memory/arena.hpp"

using namespace rdmc;
using namespace rdmc::fabric;

namespace {

constexpr auto kAll = RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic;

Address device_address() {
  const char* const text = std::getenv("RDMC_VERBS_ADDRESS");
  BOOST_REQUIRE(text != nullptr);
  return parse_address(text, 0).value();
}

std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed = 1) {
  Random random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

struct Side {
  std::unique_ptr<VerbsFabric> fabric;
  std::unique_ptr<QueuePair> queue_pair;
  std::vector<Completion> done;

  void open(const QueuePairOptions& options) {
    auto opened = VerbsFabric::open(device_address(), std::mt19937(std::random_device{}()));
    BOOST_REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().what));
    fabric = std::move(*opened);
    auto made = fabric->create_queue_pair(options);
    BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().what));
    queue_pair = std::move(*made);
  }
  void turn() {
    fabric->progress(monotonic_now());
    if (!queue_pair) return;
    std::array<Completion, 16> some;
    const std::size_t count = queue_pair->poll_completions(some);
    done.insert(done.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
  }
};

class Pair {
 public:
  explicit Pair(const QueuePairOptions& options = {}) {
    for (Side& side : sides) side.open(options);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto connected = sides[i].queue_pair->connect(sides[1 - i].queue_pair->local_blob());
      BOOST_REQUIRE_MESSAGE(connected.has_value(), (connected ? "" : connected.error().what));
    }
  }
  Side& operator[](std::size_t i) { return sides[i]; }

  template <typename Condition>
  bool run_until(Condition condition, Duration patience = seconds(20)) {
    for (const Time end = monotonic_now() + patience; !condition();) {
      if (monotonic_now() > end) return false;
      for (Side& side : sides) side.turn();
    }
    return true;
  }
  bool run_until_done(std::size_t i, std::size_t count) {
    return run_until([&, i, count] { return sides[i].done.size() >= count; });
  }

 private:
  std::array<Side, 2> sides;
};

}  // namespace

BOOST_AUTO_TEST_CASE(sends_arrive_in_posted_receives_with_their_immediates) {
  for (const std::uint32_t largest : {0U, 200U}) {  // a queue of its own, and the shared one
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
  for (const std::uint64_t compare : {7, 7})  // the second finds another value
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

BOOST_AUTO_TEST_CASE(a_key_that_was_taken_back_or_does_not_permit_it_changes_nothing) {
  enum class Wrong { revoked, range, rights };
  for (const Wrong wrong : {Wrong::revoked, Wrong::range, Wrong::rights}) {
    Pair pair;
    const auto source = random_bytes(4096);
    std::vector<std::byte> target(8192);
    const auto before = target;
    auto region = pair[1]
                      .fabric
                      ->register_memory(std::span(target).first(4096), MemoryUse::general,
                                        wrong == Wrong::rights ? RemoteAccess::read : RemoteAccess::write)
                      .value();
    const WriteRequest write{.work_id = 5,
                             .bytes = source,
                             .remote_address = region->remote_address() + (wrong == Wrong::range ? 1 : 0),
                             .remote_key = region->remote_key()};
    if (wrong == Wrong::revoked) region.reset();
    BOOST_REQUIRE(pair[0].queue_pair->post_write(write));
    BOOST_REQUIRE(pair.run_until_done(0, 1));
    BOOST_TEST((pair[0].done[0].status == WorkStatus::remote_access));
    BOOST_TEST((pair[0].queue_pair->state() == QueuePairState::error));
    BOOST_TEST(pair[0].queue_pair->error_cause() == "the peer refused access: key or range revoked or wrong");
    BOOST_TEST((target == before));
    const auto refused = pair[0].queue_pair->post_write(write);
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().code == Errc::peer_failed));
    // Its device tells the other side by an event, or, as Soft-RoCE, when it wants to send.
    std::ignore = pair[1].queue_pair->post_send({.bytes = std::span(source).first(8)});
    BOOST_TEST(pair.run_until([&] { return pair[1].queue_pair->state() == QueuePairState::error; }));
  }
}

BOOST_AUTO_TEST_CASE(what_comes_before_its_receive_waits_for_it_and_who_sends_too_much_is_cut_off_alone) {
  Pair pair({.send_depth = 512, .largest_receive = 100});
  // A second connection between the same two fabrics.
  std::array<std::unique_ptr<QueuePair>, 2> other{
      pair[0].fabric->create_queue_pair({.largest_receive = 100}).value(),
      pair[1].fabric->create_queue_pair({.largest_receive = 100}).value()};
  for (std::size_t i = 0; i < 2; ++i) BOOST_REQUIRE(other[i]->connect(other[1 - i]->local_blob()));
  const auto message = random_bytes(60);
  std::vector<std::byte> room(60);
  const auto send = [&] { BOOST_REQUIRE(pair[0].queue_pair->post_send({.bytes = message})); };
  send();
  BOOST_REQUIRE(pair.run_until_done(0, 1));
  BOOST_REQUIRE(pair[1].queue_pair->post_receive({.work_id = 1, .bytes = room}));
  BOOST_REQUIRE(pair.run_until_done(1, 1));
  BOOST_TEST((pair[1].done[0].status == WorkStatus::success));
  BOOST_TEST((room == message));
  for (int i = 0; i < 400; ++i) send();
  BOOST_REQUIRE(pair.run_until([&] { return pair[1].queue_pair->state() == QueuePairState::error; }));
  BOOST_TEST(pair[1].queue_pair->error_cause() == "the peer sent more messages than it was granted receives");
  std::vector<std::byte> received(60);
  BOOST_REQUIRE(other[1]->post_receive({.work_id = 3, .bytes = received}));
  BOOST_REQUIRE(other[0]->post_send({.bytes = message}));
  Completion completion;
  BOOST_REQUIRE(pair.run_until([&] { return other[1]->poll_completions({&completion, 1}) == 1; }));
  BOOST_TEST((completion.status == WorkStatus::success));
  BOOST_TEST((received == message));
}

BOOST_AUTO_TEST_CASE(a_message_longer_than_its_receive_ends_the_connection_and_flushes_the_rest) {
  for (const std::uint32_t largest : {0U, 100U}) {
    Pair pair({.receive_depth = 4, .largest_receive = largest});
    const auto message = random_bytes(60);
    std::vector<std::byte> room(10);
    for (std::uint64_t i = 0; i < 2; ++i)
      BOOST_REQUIRE(pair[1].queue_pair->post_receive({.work_id = i, .bytes = room}));
    BOOST_REQUIRE(pair[0].queue_pair->post_send({.bytes = message}));
    BOOST_REQUIRE(pair.run_until_done(1, 2));
    // Of its own queue the device judges, and Soft-RoCE does not call it that.
    const auto status = pair[1].done[0].status;
    BOOST_TEST((largest == 0 ? status != WorkStatus::success : status == WorkStatus::local_length),
               name(status));
    BOOST_TEST((pair[1].done[1].status == WorkStatus::flushed));
    BOOST_TEST((room == std::vector<std::byte>(10)));
  }
}

BOOST_AUTO_TEST_CASE(queue_pairs_that_end_under_traffic_take_no_shared_slots_along) {
  Side receiver;
  receiver.open({.receive_depth = 64, .largest_receive = 64});  // keeps the shared queue alive
  const auto message = random_bytes(40);
  for (int round = 0; round < 30; ++round) {
    Side sender;
    sender.open({.largest_receive = 64});
    auto doomed = receiver.fabric->create_queue_pair({.receive_depth = 64, .largest_receive = 64}).value();
    BOOST_REQUIRE(sender.queue_pair->connect(doomed->local_blob()));
    BOOST_REQUIRE(doomed->connect(sender.queue_pair->local_blob()));
    for (int i = 0; i < 64; ++i) BOOST_REQUIRE(sender.queue_pair->post_send({.bytes = message}));
    for (const Time end = monotonic_now() + milliseconds(5); monotonic_now() < end;) sender.turn();
  }  // 1,920 messages, and 1,024 slots
  Side sender;
  sender.open({.largest_receive = 64});
  BOOST_REQUIRE(sender.queue_pair->connect(receiver.queue_pair->local_blob()));
  BOOST_REQUIRE(receiver.queue_pair->connect(sender.queue_pair->local_blob()));
  std::vector<std::byte> room(40);
  BOOST_REQUIRE(receiver.queue_pair->post_receive({.bytes = room}));
  BOOST_REQUIRE(sender.queue_pair->post_send({.bytes = message}));
  for (const Time end = monotonic_now() + seconds(10); receiver.done.empty() && monotonic_now() < end;) {
    receiver.turn();
    sender.turn();
  }
  BOOST_REQUIRE(receiver.done.size() == 1u);
  BOOST_TEST((room == message));
}

BOOST_AUTO_TEST_CASE(a_region_that_ends_takes_nothing_from_works_in_the_same_memory) {
  Pair pair;
  const auto source = random_bytes(4 << 20);
  auto memory = source;
  std::vector<std::byte> target(memory.size());
  const auto region = pair[1].fabric->register_memory(target).value();
  auto first = pair[0].fabric->register_memory(memory, MemoryUse::general, kAll).value();
  const auto second = pair[0].fabric->register_memory(memory, MemoryUse::general, kAll).value();
  BOOST_TEST(first->remote_address() != second->remote_address());  // an old key finds nothing
  BOOST_REQUIRE(pair[0].queue_pair->post_write(
      {.bytes = memory, .remote_address = region->remote_address(), .remote_key = region->remote_key()}));
  first.reset();
  BOOST_REQUIRE(pair.run_until_done(0, 1));
  BOOST_TEST((pair[0].done[0].status == WorkStatus::success));
  BOOST_TEST((target == source));
}

BOOST_AUTO_TEST_CASE(a_shared_queue_that_runs_empty_delays_senders_and_loses_nothing) {
  constexpr std::uint32_t kMessages = 5'000;  // several times the shared slots
  Pair pair({.send_depth = kMessages, .receive_depth = kMessages, .largest_receive = 8});
  std::vector<std::array<std::byte, 8>> rooms(kMessages);
  for (std::uint32_t i = 0; i < kMessages; ++i)
    BOOST_REQUIRE(pair[1].queue_pair->post_receive({.work_id = i, .bytes = rooms[i]}));
  for (std::uint32_t i = 0; i < kMessages; ++i)
    BOOST_REQUIRE(pair[0].queue_pair->post_send({.work_id = i, .bytes = std::as_bytes(std::span(&i, 1))}));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // nobody takes anything meanwhile
  BOOST_REQUIRE(pair.run_until([&] { return pair[1].done.size() == kMessages; }, seconds(60)));
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    std::uint32_t value = 0;
    std::memcpy(&value, rooms[i].data(), sizeof value);
    BOOST_REQUIRE(value == i);
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_is_gone_is_given_up_in_bounded_time) {
  Pair pair({.ack_timeout = milliseconds(10), .retry_limit = 7});
  const auto message = random_bytes(100);
  pair[1].queue_pair.reset();
  const Time start = monotonic_now();
  BOOST_REQUIRE(pair[0].queue_pair->post_send({.work_id = 1, .bytes = message}));
  BOOST_REQUIRE(pair[0].queue_pair->post_send({.work_id = 2, .bytes = message}));
  BOOST_REQUIRE(pair.run_until_done(0, 2));
  BOOST_TEST((monotonic_now() - start).seconds() < 5.0);
  BOOST_TEST((pair[0].done[0].status == WorkStatus::retry_exceeded));
  BOOST_TEST((pair[0].done[1].status == WorkStatus::flushed));
  BOOST_TEST(pair[0].queue_pair->error_cause() == "the peer stopped acknowledging");
}

BOOST_AUTO_TEST_CASE(a_peer_that_never_posts_a_receive_is_given_up_in_bounded_time) {
  Pair pair({.ack_timeout = milliseconds(5), .rnr_patience = milliseconds(500)});
  const auto message = random_bytes(100);
  const Time start = monotonic_now();
  BOOST_REQUIRE(pair[0].queue_pair->post_send({.work_id = 1, .bytes = message}));
  BOOST_REQUIRE(pair.run_until_done(0, 1));
  BOOST_TEST((monotonic_now() - start).seconds() < 5.0);
  // Soft-RoCE counts the time that it waits for the peer's receive as silence of the peer.
  const std::string cause = pair[0].queue_pair->error_cause();
  BOOST_TEST((cause == "the peer posted no receive" || cause == "the peer stopped acknowledging"), cause);
}

BOOST_AUTO_TEST_CASE(a_thread_that_waits_is_woken_by_what_arrives_and_by_others_and_by_its_deadline) {
  Pair pair;
  const auto message = random_bytes(100);
  std::vector<std::byte> room(100);
  BOOST_REQUIRE(pair[1].queue_pair->post_receive({.bytes = room}));
  BOOST_REQUIRE(pair[0].queue_pair->post_send({.bytes = message}));
  Time start = monotonic_now();
  while (pair[1].done.empty()) {  // by its arrival
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

BOOST_AUTO_TEST_CASE(what_is_registered_costs_no_registration_for_each_work) {
  Pair pair({.receive_depth = 64, .largest_receive = 0});
  auto memory = random_bytes(64 * 1024);
  std::vector<std::byte> rooms(64 * 1024);
  const auto sending =
      pair[0].fabric->register_memory(memory, MemoryUse::general, RemoteAccess::none).value();
  const auto receiving =
      pair[1].fabric->register_memory(rooms, MemoryUse::general, RemoteAccess::none).value();
  for (std::size_t i = 0; i < 64; ++i) {
    BOOST_REQUIRE(
        pair[1].queue_pair->post_receive({.work_id = i, .bytes = std::span(rooms).subspan(i * 1024, 1024)}));
    BOOST_REQUIRE(
        pair[0].queue_pair->post_send({.work_id = i, .bytes = std::span(memory).subspan(i * 1024, 1024)}));
  }
  BOOST_REQUIRE(pair.run_until_done(1, 64));
  BOOST_TEST((rooms == memory));
  BOOST_TEST(pair[0].fabric->counters().registrations == 1u);
  BOOST_TEST(pair[1].fabric->counters().registrations == 1u);
}

BOOST_AUTO_TEST_CASE(memory_that_works_named_stays_registered_until_something_else_is_mapped_there) {
  Pair pair;
  constexpr std::size_t kBytes = 64 * 1024;
  std::vector<std::byte> target(kBytes);
  const auto region = pair[1].fabric->register_memory(target).value();
  const auto write = [&](std::span<const std::byte> bytes) {
    pair[0].done.clear();
    BOOST_REQUIRE(pair[0].queue_pair->post_write(
        {.bytes = bytes, .remote_address = region->remote_address(), .remote_key = region->remote_key()}));
    BOOST_REQUIRE(pair.run_until_done(0, 1));
    BOOST_TEST((pair[0].done[0].status == WorkStatus::success));
    BOOST_TEST((std::ranges::equal(bytes, target)));
  };
  void* where = nullptr;
  for (std::uint64_t round = 0; round < 20; ++round) {  // the same address, other pages each time
    void* const start = mmap(where, kBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | (where == nullptr ? 0 : MAP_FIXED), -1, 0);
    BOOST_REQUIRE(start != MAP_FAILED);
    where = start;
    const std::span memory(static_cast<std::byte*>(start), kBytes);
    for (int again = 0; again < 3; ++again) {
      std::ranges::copy(random_bytes(kBytes, round * 3 + static_cast<std::uint64_t>(again)), memory.begin());
      write(memory);
    }
    if (round % 2 == 0) munmap(start, kBytes);
  }
  munmap(where, kBytes);
  BOOST_TEST(pair[0].fabric->counters().registrations == 20u);
}

BOOST_AUTO_TEST_CASE(an_address_without_a_device_and_a_blob_that_a_nic_cannot_reach_are_refused_by_name) {
  const auto elsewhere = VerbsFabric::open(Address::ipv4(192, 0, 2, 1, 0), [] { return 1U; });
  BOOST_REQUIRE(!elsewhere);
  BOOST_TEST((elsewhere.error().code == Errc::not_found));
  BOOST_TEST(elsewhere.error().what.find("192.0.2.1") != std::string::npos);
  Side side;
  side.open({});
  auto info = decode_connection(side.queue_pair->local_blob()).value();
  info.nic = info.stranger = false;
  info.shared.port = 5000;
  const auto refused = side.queue_pair->connect(encode(info));
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().code == Errc::unsupported));
  BOOST_TEST(refused.error().what.find("4791") != std::string::npos);
}
