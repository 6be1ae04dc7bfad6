// Tests READ and atomics through the software fabric: the rights of remote keys, both modes, IPv4 and IPv6.
// The network loses, duplicates, reorders and damages packets.
#include <boost/test/unit_test.hpp>

#include <cstring>

#include "tests/dataplane/fabric/sim_pair.hpp"

BOOST_AUTO_TEST_SUITE(rd_atomic_test)

using namespace rdmc;
using namespace rdmc::fabric;
using testing::SimPair;

namespace {

constexpr auto kReadable = RemoteAccess::read;
constexpr auto kAll =
    RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic | RemoteAccess::invalidate;

std::vector<std::byte> random_bytes(std::size_t size) {
  Random random(size + 1);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

SimPair::Options with(bool selective, bool ipv6 = false) {
  SimPair::Options options;
  options.queue_pair.selective_repeat = selective;
  options.ipv6 = ipv6;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_read_fetches_what_is_there) {
  for (const bool selective : {false, true}) {
    for (const bool ipv6 : {false, true}) {
      SimPair pair(with(selective, ipv6));
      const std::array<std::size_t, 9> sizes{0, 1, 255, 1023, 1024, 4097, 65'536, 1 << 20, 8 << 20};
      auto source = random_bytes(8 << 20);
      const auto region = *pair.fabric(1).register_memory(source, MemoryUse::general, kReadable);
      std::vector<std::vector<std::byte>> read;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        read.emplace_back(sizes[i]);
        BOOST_REQUIRE(pair.queue_pair(0).post_read({.work_id = i,
                                                    .bytes = read[i],
                                                    .remote_address = region->remote_address(),
                                                    .remote_key = region->remote_key()}));
      }
      BOOST_REQUIRE(pair.run_until_completed(0, sizes.size()));
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const Completion& done = pair.completions(0)[i];
        BOOST_TEST(done.work_id == i);
        BOOST_TEST((done.kind == WorkKind::read && done.status == WorkStatus::success));
        BOOST_TEST(done.byte_count == sizes[i]);
        BOOST_TEST((std::ranges::equal(read[i], std::span(source).first(sizes[i]))));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(reads_writes_and_atomics_survive_a_bad_network_in_both_directions) {
  for (const bool selective : {false, true}) {
    SimPair pair(with(selective));
    pair.network.set_faults(
        {.loss = 10'000, .duplicate = 5'000, .reorder = 5'000, .corrupt = 5'000, .delay = 1'000});
    constexpr std::size_t kPart = 50'000, kParts = 40;
    std::array<std::vector<std::byte>, 2> source{random_bytes(kPart * kParts), random_bytes(kPart * kParts)};
    std::array<std::vector<std::byte>, 2> target, read;
    std::array<std::uint64_t, 2> counter{};
    std::vector<std::unique_ptr<MemoryRegion>> regions;
    for (std::size_t i = 0; i < 2; ++i) {
      target[i].resize(kPart * kParts);
      read[i].resize(kPart * kParts);
      regions.push_back(*pair.fabric(i).register_memory(source[i], MemoryUse::general, kReadable));
      regions.push_back(*pair.fabric(i).register_memory(target[i]));
      regions.push_back(*pair.fabric(i).register_memory(std::as_writable_bytes(std::span(&counter[i], 1)),
                                                        MemoryUse::general, RemoteAccess::atomic));
    }
    for (std::size_t part = 0; part < kParts; ++part) {
      for (std::size_t i = 0; i < 2; ++i) {
        const auto* const theirs = &regions[3 * (1 - i)];
        BOOST_REQUIRE(pair.queue_pair(i).post_read({.work_id = 3 * part,
                                                    .bytes = std::span(read[i]).subspan(part * kPart, kPart),
                                                    .remote_address = part * kPart,
                                                    .remote_key = theirs[0]->remote_key()}));
        BOOST_REQUIRE(
            pair.queue_pair(i).post_write({.work_id = 3 * part + 1,
                                           .bytes = std::span(source[i]).subspan(part * kPart, kPart),
                                           .remote_address = part * kPart,
                                           .remote_key = theirs[1]->remote_key()}));
        BOOST_REQUIRE(pair.queue_pair(i).post_atomic(
            {.work_id = 3 * part + 2, .remote_key = theirs[2]->remote_key(), .swap_or_add = part + 1}));
      }
    }
    for (std::size_t i = 0; i < 2; ++i) {
      BOOST_REQUIRE(pair.run_until_completed(i, 3 * kParts));
      std::uint64_t expected = 0;
      for (std::size_t k = 0; k < 3 * kParts; ++k) {
        const Completion& done = pair.completions(i)[k];
        BOOST_REQUIRE_EQUAL(done.work_id, k);
        BOOST_REQUIRE_MESSAGE(done.status == WorkStatus::success,
                              name(done.status) << ", selective " << selective << ", end " << i << ", work "
                                                << k << ": " << pair.queue_pair(i).error_cause() << "; "
                                                << pair.queue_pair(1 - i).error_cause());
        if (done.kind != WorkKind::atomic) continue;
        BOOST_REQUIRE_EQUAL(done.original, expected);
        expected += k / 3 + 1;
      }
    }
    for (std::size_t i = 0; i < 2; ++i) {
      BOOST_TEST((read[i] == source[1 - i]));
      BOOST_TEST((target[i] == source[1 - i]));
      BOOST_TEST(counter[i] == kParts * (kParts + 1) / 2);
    }
    BOOST_TEST(pair.simulation.faults()[sim::Fault::loss] > 0u);
    BOOST_TEST(pair.simulation.faults()[sim::Fault::corrupt] > 0u);
    BOOST_TEST(pair.fabric(0).connection_counters().implied_naks > 0u);
  }
}

BOOST_AUTO_TEST_CASE(a_key_permits_what_it_was_registered_for_and_nothing_else) {
  struct Try {
    RemoteAccess granted;
    WorkKind kind;
    bool succeeds;
  };
  for (const Try& t :
       {Try{RemoteAccess::write, WorkKind::read, false}, Try{kReadable, WorkKind::read, true},
        Try{kReadable, WorkKind::write, false}, Try{RemoteAccess::write, WorkKind::write, true},
        Try{kReadable | RemoteAccess::write, WorkKind::atomic, false},
        Try{RemoteAccess::atomic, WorkKind::atomic, true}}) {
    for (const bool selective : {false, true}) {
      SimPair pair(with(selective));
      alignas(8) std::array<std::byte, 64> memory{}, local{};
      local.fill(std::byte{1});
      const auto region = *pair.fabric(1).register_memory(memory, MemoryUse::general, t.granted);
      const RemoteKey key = region->remote_key();
      if (t.kind == WorkKind::read) BOOST_REQUIRE(pair.queue_pair(0).post_read({1, local, 0, key}));
      if (t.kind == WorkKind::write)
        BOOST_REQUIRE(pair.queue_pair(0).post_write({.bytes = local, .remote_key = key}));
      if (t.kind == WorkKind::atomic)
        BOOST_REQUIRE(pair.queue_pair(0).post_atomic({.remote_key = key, .swap_or_add = 1}));
      BOOST_REQUIRE(pair.run_until_completed(0, 1));
      const Completion& done = pair.completions(0)[0];
      BOOST_TEST((done.kind == t.kind));
      BOOST_TEST((done.status == (t.succeeds ? WorkStatus::success : WorkStatus::remote_access)));
      const bool untouched = std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{0}; });
      BOOST_TEST(untouched == !(t.succeeds && t.kind != WorkKind::read));
      BOOST_TEST(
          (pair.queue_pair(1).state() == (t.succeeds ? QueuePairState::ready : QueuePairState::error)));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_send_takes_a_key_of_the_peer_s_out_of_use) {
  SimPair pair(with(true));
  std::array<std::byte, 64> memory{}, receive{}, local{};
  const auto region = *pair.fabric(1).register_memory(memory, MemoryUse::general, kAll);
  BOOST_REQUIRE(pair.queue_pair(1).post_receive({5, receive}));
  BOOST_REQUIRE(
      pair.queue_pair(0).post_send({.work_id = 1, .bytes = local, .invalidate = region->remote_key()}));
  BOOST_REQUIRE(pair.run_until_completed(0, 1));
  BOOST_REQUIRE(pair.run_until_completed(1, 1));
  BOOST_TEST((pair.completions(1)[0].invalidated == region->remote_key()));
  BOOST_REQUIRE(pair.queue_pair(0).post_read({2, local, 0, region->remote_key()}));
  BOOST_REQUIRE(pair.run_until_completed(0, 2));
  BOOST_TEST((pair.completions(0)[1].status == WorkStatus::remote_access));
  BOOST_TEST(!pair.queue_pair(0).post_send({.immediate = 1, .invalidate = region->remote_key()}));
}

BOOST_AUTO_TEST_CASE(memory_that_is_gone_is_not_read_for_a_response_that_waits) {
  for (const bool selective : {false, true}) {
    SimPair pair(with(selective));
    auto source = std::make_unique<std::vector<std::byte>>(random_bytes(4 << 20));
    auto region = *pair.fabric(1).register_memory(*source, MemoryUse::general, kReadable);
    std::vector<std::byte> read(4 << 20);
    BOOST_REQUIRE(pair.queue_pair(0).post_read({1, read, 0, region->remote_key()}));
    for (const auto& member : pair.members) pair.simulation.wake(member.id);
    pair.simulation.run_until(pair.simulation.now() + microseconds(300));
    BOOST_REQUIRE(pair.completions(0).empty());
    region.reset();
    source.reset();  // AddressSanitizer would report a later read of this memory.
    BOOST_REQUIRE(pair.run_until_completed(0, 1));
    BOOST_TEST((pair.completions(0)[0].status == WorkStatus::remote_access));
  }
}

BOOST_AUTO_TEST_SUITE_END()
