// Tests all operations over each fabric, for each method by which an application can get completions.
#include <poll.h>

#include <rapidcheck.h>
#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <optional>
#include <thread>
#include <tuple>

#include "tests/lib/unicast/endpoints.hpp"

BOOST_AUTO_TEST_SUITE(operations_test)

using namespace rdmc;
using namespace rdmc::testing;

namespace {

constexpr std::array<const char*, 3> kFabrics{"udp", "shm", "auto"};
constexpr std::size_t kRegionBytes = 64 * 1024;

struct Drawn {
  int kind = 0;
  std::size_t offset = 0, bytes = 0;
  std::uint64_t number = 0;
};

rc::Gen<std::vector<Drawn>> operations() {
  return rc::gen::container<std::vector<Drawn>>(rc::gen::build<Drawn>(
      rc::gen::set(&Drawn::kind, rc::gen::inRange(0, 7)),
      rc::gen::set(&Drawn::offset, rc::gen::inRange<std::size_t>(0, kRegionBytes / 2)),
      rc::gen::set(&Drawn::bytes, rc::gen::element<std::size_t>(0, 1, 8, 4095, 4096, 9000, 30'000)),
      rc::gen::set(&Drawn::number, rc::gen::inRange<std::uint64_t>(0, 3))));
}

/// Two connected endpoints. One performs operations, and the other one has the memory. The test has a model
/// of the memory.
class World {
 public:
  World(const char* fabric, Way way) : other_({.fabric = fabric}), us_({.fabric = fabric}, way) {
    std::tie(here_, there_) = connect(us_, other_);
    region_ = std::move(*other_->register_memory(std::as_writable_bytes(std::span(memory_)), kAllAccess));
    key_ = *region_.grant(there_);
  }

  void run(const std::vector<Drawn>& drawn) {
    std::uint64_t work_id = 1'000;
    for (const Drawn& one : drawn) {
      ++work_id;
      std::vector<std::byte> bytes(one.bytes, std::byte(work_id));
      const std::size_t word = one.offset / 8;
      auto& value = memory_model_[word];
      std::byte* const model = reinterpret_cast<std::byte*>(memory_model_.data()) + one.offset;
      switch (one.kind) {
        case 0:
        case 1: {
          const bool copies = one.kind == 0;
          if (copies) bytes.resize(std::min(bytes.size(), Endpoint::kMostCopiedBytes));
          const auto sent = bytes;
          std::vector<std::byte> room(bytes.size() + 7);
          RC_ASSERT((there_.post_receive(room, work_id)).has_value());
          RC_ASSERT((copies ? here_.send_copy(bytes, work_id, 5) : here_.send(bytes, work_id)));
          if (copies) std::ranges::fill(bytes, std::byte{0xEE});
          // This call also gives turns to us_, which may have no thread.
          RC_ASSERT(is(us_.next(), WorkKind::send, work_id));
          const Completion received = other_.next();
          RC_ASSERT(is(received, WorkKind::receive, work_id));
          RC_ASSERT(received.byte_count == sent.size());
          RC_ASSERT(received.immediate == (copies ? std::optional<std::uint32_t>(5) : std::nullopt));
          RC_ASSERT(std::ranges::equal(std::span(room).first(sent.size()), sent));
          break;
        }
        case 2:
          RC_ASSERT((here_.write(bytes, key_, one.offset, work_id)).has_value());
          RC_ASSERT(is(us_.next(), WorkKind::write, work_id));
          std::ranges::copy(bytes, model);
          break;
        case 3: {
          RC_ASSERT((there_.post_receive({}, work_id)).has_value());
          RC_ASSERT((here_.write_with_immediate(bytes, key_, one.offset, 9, work_id)).has_value());
          RC_ASSERT(is(us_.next(), WorkKind::write, work_id));
          const Completion received = other_.next();
          RC_ASSERT(is(received, WorkKind::receive_write_immediate, work_id));
          RC_ASSERT((received.byte_count == bytes.size() && received.immediate == 9U));
          std::ranges::copy(bytes, model);
          break;
        }
        case 4:
          RC_ASSERT((here_.read(bytes, key_, one.offset, work_id)).has_value());
          RC_ASSERT(is(us_.next(), WorkKind::read, work_id));
          RC_ASSERT(std::ranges::equal(bytes, std::span(model, bytes.size())));
          break;
        case 5: {
          const std::uint64_t expected = one.number == 0 ? value : one.number;
          RC_ASSERT((here_.compare_and_swap(key_, word * 8, expected, work_id, work_id)).has_value());
          const Completion done = us_.next();
          RC_ASSERT((is(done, WorkKind::atomic, work_id) && done.original == value));
          if (value == expected) value = work_id;
          break;
        }
        default: {
          RC_ASSERT((here_.fetch_and_add(key_, word * 8, one.number, work_id)).has_value());
          const Completion done = us_.next();
          RC_ASSERT((is(done, WorkKind::atomic, work_id) && done.original == value));
          value += one.number;
        }
      }
    }
    RC_ASSERT(memory_ == memory_model_);
  }

 private:
  std::vector<std::uint64_t> memory_ = std::vector<std::uint64_t>(kRegionBytes / 8);
  std::vector<std::uint64_t> memory_model_ = memory_;
  Party other_, us_;
  Connection here_, there_;
  Region region_;
  RemoteMemory key_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_operation_does_what_it_says_over_every_fabric_and_in_every_way) {
  for (const char* const fabric : kFabrics) {
    for (const Way way : kWays) {
      BOOST_TEST_CONTEXT(fabric << ", way " << static_cast<int>(way)) {
        World world(fabric, way);
        BOOST_TEST(
            rc::check("operations do what they say", [&] { world.run(*rc::gen::resize(8, operations())); }));
      }
    }
  }
}

// One thread drives both endpoints. It sleeps until one of them has something to do.
BOOST_AUTO_TEST_CASE(a_loop_that_waits_for_the_descriptors_misses_nothing) {
  for (const char* const fabric : {"udp", "shm", "auto"}) {
    BOOST_TEST_CONTEXT(fabric) {
      Party server({.fabric = fabric}, Way::drives_and_polls),
          client({.fabric = fabric}, Way::drives_and_polls);
      BOOST_TEST_REQUIRE((server && client));
      std::array<pollfd, 2> watched{
          {{server->descriptor().value(), POLLIN, 0}, {client->descriptor().value(), POLLIN, 0}}};
      std::optional<Connection> there;
      server.when_connected = [&](const Connection& connection) { there = connection; };
      std::optional<Result<Connection>> here;
      client->connect(server.place(), kPatience, [&](Result<Connection> made) { here = std::move(made); });
      std::vector<Completion> at_server, at_client;
      const auto turn = [&] {
        int readable = 0;
        do {
          readable = ::poll(watched.data(), watched.size(), 60'000);
        } while (readable < 0 && errno == EINTR);
        BOOST_TEST_REQUIRE(readable > 0);
        const auto take = [](Endpoint& endpoint, std::vector<Completion>& into) {
          std::array<Completion, 16> some;
          for (std::size_t count = some.size(); count == some.size();) {
            count = endpoint.poll(some);
            into.insert(into.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count));
          }
        };
        take(*server, at_server);
        take(*client, at_client);
      };
      while (!there || !here) turn();
      BOOST_TEST_REQUIRE(here->has_value());
      std::array<std::byte, 64> bytes{}, room{};
      for (std::size_t round = 1; round <= 50; ++round) {
        BOOST_TEST_REQUIRE(there->post_receive(room, round).has_value());
        BOOST_TEST_REQUIRE((*here)->send(bytes, round).has_value());
        while (at_server.size() < round || at_client.size() < round) turn();
      }
      BOOST_TEST((at_server.back().work_id == 50 && at_client.back().work_id == 50));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_fabric_that_is_not_here_is_refused_by_name) {
  for (const char* const fabric : {"verbs", "dpdk"}) {
    const Party party({.address = Address::ipv4(127, 0, 0, 1, 0), .fabric = fabric});
    BOOST_TEST(!party);
    BOOST_TEST(!party.error().what.empty());
    BOOST_TEST_MESSAGE("skipped over " << fabric << ": " << party.error().what);
  }
}

BOOST_AUTO_TEST_CASE(completions_come_in_the_order_of_posting_however_many_are_posted_at_once) {
  for (const char* const fabric : kFabrics) {
    Party other({.fabric = fabric}), us({.fabric = fabric}, Way::upcalls);
    const auto [here, there] = connect(us, other);
    constexpr std::uint64_t kMessages = 200;
    std::vector<std::vector<std::byte>> rooms(kMessages, std::vector<std::byte>(8));
    for (std::uint64_t i = 0; i < kMessages; ++i) BOOST_REQUIRE(there.post_receive(rooms[i], i));
    const std::vector<std::byte> bytes(8, std::byte{3});
    for (std::uint64_t i = 0; i < kMessages; ++i) BOOST_REQUIRE(here.send(bytes, i));
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      BOOST_TEST(is(us.next(), WorkKind::send, i));
      BOOST_TEST(is(other.next(), WorkKind::receive, i));
      BOOST_TEST((rooms[i] == bytes));
    }
    const EndpointCounters counters = us->counters();
    BOOST_TEST((counters.sends == kMessages && counters.failed == 0 && counters.connections_made == 1));
    BOOST_TEST(
        (other->counters().receives == kMessages && other->counters().bytes_received == 8 * kMessages));
    BOOST_TEST(other->counters().connections_accepted == 1);
  }
}

BOOST_AUTO_TEST_CASE(copied_bytes_are_the_caller_s_at_once_and_more_copies_than_there_is_room_for_wait) {
  Party other({.fabric = "udp"}), us({.fabric = "udp"});
  const auto [here, there] = connect(us, other);
  std::vector<std::byte> bytes(Endpoint::kMostCopiedBytes);
  std::uint64_t copies = 0;
  Result<void> sent;
  // The peer has posted no receive, so no send completes.
  for (; sent; ++copies) {
    std::ranges::fill(bytes, std::byte(copies));
    sent = here.send_copy(bytes, copies);
  }
  BOOST_TEST(failed_with(sent, Errc::would_block));
  --copies;
  BOOST_TEST(copies == Endpoint::kMostCopies);
  std::ranges::fill(bytes, std::byte{0xEE});
  std::vector<std::vector<std::byte>> rooms(copies, bytes);
  for (std::uint64_t i = 0; i < copies; ++i) BOOST_REQUIRE(there.post_receive(rooms[i], i));
  for (std::uint64_t i = 0; i < copies; ++i) {
    BOOST_TEST(is(other.next(), WorkKind::receive, i));
    BOOST_TEST((rooms[i] == std::vector<std::byte>(bytes.size(), std::byte(i))));
    BOOST_TEST(is(us.next(), WorkKind::send, i));
  }
  BOOST_TEST(here.send_copy(bytes, 0).has_value());
  BOOST_TEST(
      failed_with(here.send_copy(std::vector<std::byte>(bytes.size() + 1), 0), Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(no_more_operations_are_taken_than_the_depths_say_until_completions_were_taken) {
  // This memory must outlive the operations in flight.
  std::vector<std::byte> byte(1), room(8);
  Party other({.fabric = "udp"}), us({.fabric = "udp", .send_depth = 4, .receive_depth = 2});
  const auto [here, there] = connect(us, other);
  for (std::uint64_t i = 0; i < 2; ++i) BOOST_TEST(here.post_receive(room, i).has_value());
  BOOST_TEST(failed_with(here.post_receive(room, 2), Errc::would_block));
  for (std::uint64_t i = 0; i < 4; ++i) BOOST_TEST(here.send(byte, i).has_value());
  BOOST_TEST(failed_with(here.send(byte, 4), Errc::would_block));
  for (std::uint64_t i = 0; i < 4; ++i) BOOST_REQUIRE(there.post_receive(room, i));
  other.next(4);
  // The application has not taken the completions yet.
  BOOST_TEST(failed_with(here.send(byte, 4), Errc::would_block));
  us.next(4);
  BOOST_TEST(here.send(byte, 4).has_value());
}

BOOST_AUTO_TEST_CASE(completions_that_are_there_together_are_handed_out_in_one_batch) {
  constexpr std::size_t kReceives = 10;
  for (const Way way : kWays) {
    BOOST_TEST_CONTEXT("way " << static_cast<int>(way)) {
      Party other({.fabric = "udp"}), us({.fabric = "udp"}, way);
      std::vector<std::size_t> batches;
      us.when_completed = [&](std::span<const Completion> some) { batches.push_back(some.size()); };
      const auto [here, there] = connect(us, other);
      for (std::size_t i = 0; i < kReceives; ++i) BOOST_REQUIRE(here.post_receive({}, i));
      here.disconnect();
      us.end_of(here);  // By now, all receives have been flushed.
      if (way == Way::polls || way == Way::drives_and_polls) {
        std::array<Completion, kReceives + 6> some;
        batches.push_back(us->poll(some));
        for (std::size_t i = 0; i < kReceives; ++i)
          BOOST_TEST(is(some[i], WorkKind::receive, i, WorkStatus::flushed));
      }
      BOOST_TEST(batches == std::vector{kReceives}, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(operations_that_make_no_sense_are_refused_at_once) {
  const Connection none;
  BOOST_TEST(failed_with(none.send({}, 0), Errc::peer_failed));
  BOOST_TEST(failed_with(none.post_receive({}, 0), Errc::peer_failed));
  BOOST_TEST(!none.is_open());
  Party other({.fabric = "udp"}), us({.fabric = "udp"});
  const auto [here, there] = connect(us, other);
  std::vector<std::byte> bytes(16);
  const RemoteMemory memory{.address = 0, .length = 16, .key = RemoteKey{1}};
  BOOST_TEST(failed_with(here.write(bytes, memory, 1, 0), Errc::invalid_argument));
  BOOST_TEST(failed_with(here.read(bytes, memory, UINT64_MAX, 0), Errc::invalid_argument));
  BOOST_TEST(failed_with(here.fetch_and_add(memory, 4, 1, 0), Errc::invalid_argument));
  BOOST_TEST(failed_with(here.compare_and_swap(memory, 16, 0, 1, 0), Errc::invalid_argument));
  BOOST_TEST(here.is_open());
  const Capabilities& can = us->capabilities();
  BOOST_TEST((can.atomics && can.keys_per_connection && can.largest_message == 0x7FFF'FFFFU));
  const std::span beyond(bytes.data(), std::size_t{can.largest_message} + 1);
  BOOST_TEST(failed_with(here.send(beyond, 0), Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(many_threads_may_ask_for_operations_of_one_connection) {
  Party other({.fabric = "auto"}), us({.fabric = "auto"}, Way::upcalls);
  const auto [here, there] = connect(us, other);
  constexpr std::uint64_t kThreads = 4, kEach = 50;
  std::vector<std::byte> room(8);
  for (std::uint64_t i = 0; i < kThreads * kEach; ++i) BOOST_REQUIRE(there.post_receive(room, i));
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t, here = here] {
      const auto bytes = bytes_of("12345678");
      for (std::uint64_t i = 0; i < kEach;)
        if (here.send_copy(bytes, t * kEach + i)) ++i;
    });
  std::vector<std::uint64_t> next(kThreads);
  // The operations of each thread must complete in order.
  for (const Completion& done : us.next(kThreads * kEach)) {
    BOOST_TEST((done.status == WorkStatus::success));
    BOOST_TEST(done.work_id % kEach == next[done.work_id / kEach]++);
  }
  for (std::thread& thread : threads) thread.join();
  other.next(kThreads * kEach);
}

BOOST_AUTO_TEST_SUITE_END()
