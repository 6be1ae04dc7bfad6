// Tests the properties that every queue pair must have, whatever its provider is. They are tested with the
// software fabric without encryption, with the encrypted software fabric, and with shared memory for each
// method of copying payload.
#include <rapidcheck.h>
#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>

#include "tests/dataplane/fabric/shm/shm_pair.hpp"
#include "tests/dataplane/fabric/sim_pair.hpp"

BOOST_AUTO_TEST_SUITE(conformance_test)

using namespace rdmc;
using namespace rdmc::fabric;
using testing::ShmPair;
using testing::SimPair;

namespace {

/// Each of these worlds is a pair of fabrics. The function memory() of a world makes the memory from which
/// payload is sent.
struct Software : SimPair {
  explicit Software(const QueuePairOptions& options = {})
      : SimPair(SimPair::Options{.queue_pair = options}) {}
  memory::Arena memory(std::size_t bytes) { return std::move(*memory::Arena::make(bytes)); }
};
struct Encrypted : SimPair {
  explicit Encrypted(const QueuePairOptions& options = {})
      : SimPair(SimPair::Options{.queue_pair = options, .encrypt = true}) {}
  memory::Arena memory(std::size_t bytes) { return std::move(*memory::Arena::make(bytes)); }
};
struct ShmArenas : ShmPair {
  explicit ShmArenas(const QueuePairOptions& options = {}) : ShmPair(options) {}
  memory::Arena memory(std::size_t bytes) { return std::move(*fabric(0).make_arena(bytes)); }
};
struct ShmProcesses : ShmPair {
  explicit ShmProcesses(const QueuePairOptions& options = {}) : ShmPair(options) {}
  memory::Arena memory(std::size_t bytes) { return std::move(*memory::Arena::make(bytes)); }
};
struct ShmStaged : ShmPair {
  explicit ShmStaged(const QueuePairOptions& options = {}) : ShmPair(options, false) {}
  memory::Arena memory(std::size_t bytes) { return std::move(*memory::Arena::make(bytes)); }
};
using Worlds = boost::mpl::list<Software, Encrypted, ShmArenas, ShmProcesses, ShmStaged>;

constexpr auto kAll =
    RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic | RemoteAccess::invalidate;
constexpr std::size_t kRegion = 1 << 19;

void fill(std::span<std::byte> bytes, std::uint64_t seed) {
  Random random(seed);
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(bytes.data() + i, &word, 8);
  }
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// One work request with the random values that a property has drawn.
struct Drawn {
  WorkKind kind;
  std::size_t bytes, offset;
  bool immediate, swap;
};

rc::Gen<std::size_t> sizes() {
  return rc::gen::oneOf(rc::gen::element<std::size_t>(0, 1, 8, 4095, 4096, 4097, 16'384, 32'769, 150'000),
                        rc::gen::inRange<std::size_t>(0, 9000));
}

rc::Gen<std::vector<Drawn>> batch() {
  // A READ and the work requests posted after it are not ordered (IBTA vol. 1, table 79). So no batch
  // contains READs and other work requests.
  const auto drawn = [](std::vector<WorkKind> kinds) {
    return rc::gen::container<std::vector<Drawn>>(rc::gen::build<Drawn>(
        rc::gen::set(&Drawn::kind, rc::gen::elementOf(kinds)), rc::gen::set(&Drawn::bytes, sizes()),
        rc::gen::set(&Drawn::offset, rc::gen::inRange<std::size_t>(0, 350'000)),
        rc::gen::set(&Drawn::immediate, rc::gen::arbitrary<bool>()),
        rc::gen::set(&Drawn::swap, rc::gen::arbitrary<bool>())));
  };
  return rc::gen::oneOf(drawn({WorkKind::send, WorkKind::write}), drawn({WorkKind::read}),
                        drawn({WorkKind::atomic}));
}

/// Runs batches of work requests from end 0 to end 1, and compares the results with a model.
template <typename World>
class Script {
 public:
  Script() : source_(world_.memory(kRegion)), region_bytes_(kRegion) {
    fill(source_.bytes(), 1);
    fill(region_bytes_, 2);
    model_ = region_bytes_;
    region_ = *world_.fabric(1).register_memory(region_bytes_, MemoryUse::general, kAll);
  }

  void run(const std::vector<Drawn>& works) {
    std::vector<Completion> sent, received;
    std::vector<std::vector<std::byte>> inboxes;
    // The bytes that each READ has read, and the bytes that it should have read.
    std::vector<std::pair<std::vector<std::byte>, std::vector<std::byte>>> reads;
    reads.reserve(works.size());
    world_.completions(0).clear();
    world_.completions(1).clear();
    for (std::size_t i = 0; i < works.size() && i < 100; ++i) {
      const Drawn& work = works[i];
      const std::size_t offset = work.kind == WorkKind::atomic ? work.offset / 8 * 8 : work.offset;
      const auto bytes = source_.bytes().subspan(work.offset, work.bytes);
      const std::uint64_t remote = region_->remote_address() + offset;
      const auto immediate = work.immediate ? std::optional(static_cast<std::uint32_t>(i)) : std::nullopt;
      Completion done{.work_id = i, .kind = work.kind};
      const bool receives = work.kind == WorkKind::send || (work.kind == WorkKind::write && work.immediate);
      if (receives) {
        inboxes.emplace_back(work.bytes);
        RC_ASSERT(bool(world_.queue_pair(1).post_receive({.work_id = 1000 + i, .bytes = inboxes.back()})));
        received.push_back(
            {.work_id = 1000 + i,
             .kind = work.kind == WorkKind::send ? WorkKind::receive : WorkKind::receive_write_immediate,
             .byte_count = static_cast<std::uint32_t>(work.bytes),
             .immediate = immediate});
      }
      switch (work.kind) {
        case WorkKind::send:
          RC_ASSERT(
              bool(world_.queue_pair(0).post_send({.work_id = i, .bytes = bytes, .immediate = immediate})));
          break;
        case WorkKind::write:
          std::ranges::copy(bytes, model_.begin() + static_cast<std::ptrdiff_t>(offset));
          RC_ASSERT(bool(world_.queue_pair(0).post_write({.work_id = i,
                                                          .bytes = bytes,
                                                          .remote_address = remote,
                                                          .remote_key = region_->remote_key(),
                                                          .immediate = immediate})));
          break;
        case WorkKind::read: {
          const auto expected = std::span(model_).subspan(offset, work.bytes);
          auto& [got, _] = reads.emplace_back(std::vector<std::byte>(work.bytes),
                                              std::vector<std::byte>(expected.begin(), expected.end()));
          RC_ASSERT(bool(world_.queue_pair(0).post_read(
              {.work_id = i, .bytes = got, .remote_address = remote, .remote_key = region_->remote_key()})));
          break;
        }
        default: {
          std::uint64_t value = 0;
          std::memcpy(&value, model_.data() + offset, 8);
          done.original = value;
          const std::uint64_t compare = work.immediate ? value : value + 1;
          if (!work.swap)
            value += 77;
          else if (compare == value)
            value = 0xABCD;
          std::memcpy(model_.data() + offset, &value, 8);
          RC_ASSERT(bool(world_.queue_pair(0).post_atomic(
              {.work_id = i,
               .kind = work.swap ? AtomicRequest::Kind::compare_swap : AtomicRequest::Kind::fetch_add,
               .remote_address = remote,
               .remote_key = region_->remote_key(),
               .swap_or_add = work.swap ? 0xABCDU : 77U,
               .compare = compare})));
        }
      }
      sent.push_back(done);
    }
    RC_ASSERT(world_.run_until_completed(0, sent.size()));
    RC_ASSERT(world_.run_until_completed(1, received.size()));
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const Completion& done = world_.completions(0)[i];
      RC_ASSERT(done.status == WorkStatus::success);
      RC_ASSERT(done.work_id == sent[i].work_id);
      RC_ASSERT(done.kind == sent[i].kind);
      RC_ASSERT(done.original == sent[i].original);
    }
    std::size_t inbox = 0;
    for (std::size_t i = 0; i < received.size(); ++i, ++inbox) {
      const Completion& done = world_.completions(1)[i];
      RC_ASSERT(done.status == WorkStatus::success);
      RC_ASSERT(done.work_id == received[i].work_id);
      RC_ASSERT(done.kind == received[i].kind);
      RC_ASSERT(done.byte_count == received[i].byte_count);
      RC_ASSERT(done.immediate == received[i].immediate);
      const std::size_t work = done.work_id - 1000;
      if (done.kind == WorkKind::receive)
        RC_ASSERT(same(std::span(inboxes[inbox]).first(done.byte_count),
                       source_.bytes().subspan(works[work].offset, works[work].bytes)));
    }
    for (const auto& [got, expected] : reads) RC_ASSERT(same(got, expected));
    RC_ASSERT(same(region_bytes_, model_));
  }

 private:
  World world_;
  memory::Arena source_;
  std::vector<std::byte> region_bytes_, model_;
  std::unique_ptr<MemoryRegion> region_;
};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(works_of_every_kind_do_what_they_say_in_their_order, World, Worlds) {
  BOOST_TEST(rc::check("works do what they say", [] {
    Script<World> script;
    const auto batches = *rc::gen::resize(8, rc::gen::container<std::vector<std::vector<Drawn>>>(batch()));
    for (const auto& works : batches) script.run(works);
  }));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_key_permits_what_it_was_registered_for_and_nothing_else, World, Worlds) {
  struct Try {
    RemoteAccess granted;
    WorkKind kind;
    bool succeeds;
  };
  for (const Try& t :
       {Try{RemoteAccess::write, WorkKind::read, false}, Try{RemoteAccess::read, WorkKind::read, true},
        Try{RemoteAccess::read, WorkKind::write, false}, Try{RemoteAccess::write, WorkKind::write, true},
        Try{RemoteAccess::read | RemoteAccess::write, WorkKind::atomic, false},
        Try{RemoteAccess::atomic, WorkKind::atomic, true}}) {
    World world;
    alignas(8) std::array<std::byte, 64> memory{}, local{};
    local.fill(std::byte{1});
    const auto region = *world.fabric(1).register_memory(memory, MemoryUse::general, t.granted);
    const RemoteKey key = region->remote_key();
    const std::uint64_t at = region->remote_address();
    if (t.kind == WorkKind::read) BOOST_REQUIRE(world.queue_pair(0).post_read({1, local, at, key}));
    if (t.kind == WorkKind::write)
      BOOST_REQUIRE(
          world.queue_pair(0).post_write({.bytes = local, .remote_address = at, .remote_key = key}));
    if (t.kind == WorkKind::atomic)
      BOOST_REQUIRE(
          world.queue_pair(0).post_atomic({.remote_address = at, .remote_key = key, .swap_or_add = 1}));
    BOOST_REQUIRE(world.run_until_completed(0, 1));
    const Completion& done = world.completions(0)[0];
    BOOST_TEST((done.kind == t.kind));
    BOOST_TEST((done.status == (t.succeeds ? WorkStatus::success : WorkStatus::remote_access)));
    const bool untouched = std::ranges::all_of(memory, [](std::byte b) { return b == std::byte{0}; });
    BOOST_TEST(untouched == !(t.succeeds && t.kind != WorkKind::read));
    BOOST_TEST((world.queue_pair(1).state() == (t.succeeds ? QueuePairState::ready : QueuePairState::error)));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(nothing_is_written_outside_of_a_region_or_after_it_was_revoked, World, Worlds) {
  for (const std::size_t bytes : {64UL, 5000UL, 100'000UL}) {
    for (const bool revoked : {false, true}) {
      World world;
      auto source = world.memory(bytes);
      fill(source.bytes(), 3);
      std::vector<std::byte> memory(bytes + 100);
      auto region = *world.fabric(1).register_memory(std::span(memory).first(bytes - 1 + (revoked ? 1 : 0)));
      const WriteRequest write{.bytes = source.bytes().first(bytes),
                               .remote_address = region->remote_address(),
                               .remote_key = region->remote_key()};
      if (revoked) region.reset();
      BOOST_REQUIRE(world.queue_pair(0).post_write(write));
      BOOST_REQUIRE(world.run_until_completed(0, 1));
      BOOST_TEST((world.completions(0)[0].status == WorkStatus::remote_access));
      const auto outside = std::span(memory).subspan(revoked ? 0 : bytes - 1);
      BOOST_TEST(std::ranges::all_of(outside, [](std::byte b) { return b == std::byte{0}; }));
      BOOST_TEST(!world.queue_pair(1).error_cause().empty());
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_key_of_one_queue_pair_is_wrong_on_every_other, World, Worlds) {
  for (const WorkKind kind : {WorkKind::write, WorkKind::read, WorkKind::atomic}) {
    World world;
    // Each end makes another queue pair. These two are connected to each other.
    std::array<std::unique_ptr<QueuePair>, 2> others;
    for (std::size_t i = 0; i < 2; ++i) others[i] = *world.fabric(i).create_queue_pair({});
    BOOST_TEST(!others[1]->register_memory({}, kAll));
    for (std::size_t i = 0; i < 2; ++i) BOOST_REQUIRE(others[i]->connect(others[1 - i]->local_blob()));
    alignas(8) std::array<std::byte, 64> memory{}, local{};
    memory.fill(std::byte{1});
    local.fill(std::byte{2});
    const auto memory_before = memory, local_before = local;
    const auto region = *world.queue_pair(1).register_memory(memory, kAll);
    const RemoteKey key = region->remote_key();
    const std::uint64_t at = region->remote_address();
    const auto post = [&](QueuePair& to) -> Result<void> {
      if (kind == WorkKind::read) return to.post_read({1, local, at, key});
      if (kind == WorkKind::atomic)
        return to.post_atomic({.remote_address = at, .remote_key = key, .swap_or_add = 1});
      return to.post_write({.bytes = local, .remote_address = at, .remote_key = key});
    };

    BOOST_REQUIRE(post(*others[0]));
    std::array<Completion, 1> refused;
    BOOST_REQUIRE(world.run_until([&] { return others[0]->poll_completions(refused) == 1; }));
    BOOST_TEST((refused[0].status == WorkStatus::remote_access));
    BOOST_TEST((memory == memory_before && local == local_before));

    BOOST_REQUIRE(post(world.queue_pair(0)));
    BOOST_REQUIRE(world.run_until_completed(0, 1));
    BOOST_TEST((world.completions(0)[0].status == WorkStatus::success));
    BOOST_TEST((memory != memory_before || local != local_before));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_refused_work_fails_by_name_and_what_follows_it_is_flushed, World, Worlds) {
  World world;
  std::vector<std::byte> receive(100), bytes(101);
  BOOST_REQUIRE(world.queue_pair(1).post_receive({.work_id = 5, .bytes = receive}));
  BOOST_REQUIRE(world.queue_pair(1).post_receive({.work_id = 6, .bytes = receive}));
  BOOST_REQUIRE(world.queue_pair(0).post_send({.work_id = 1, .bytes = bytes}));
  BOOST_REQUIRE(world.queue_pair(0).post_send({.work_id = 2, .bytes = bytes}));
  BOOST_REQUIRE(world.run_until_completed(0, 2));
  BOOST_REQUIRE(world.run_until_completed(1, 2));
  BOOST_TEST((world.completions(0)[0].status == WorkStatus::remote_invalid_request));
  BOOST_TEST((world.completions(0)[1].status == WorkStatus::flushed));
  BOOST_TEST((world.completions(1)[0].status == WorkStatus::local_length));
  BOOST_TEST((world.completions(1)[1].status == WorkStatus::flushed));
  for (const std::size_t i : {0U, 1U}) {
    BOOST_TEST((world.queue_pair(i).state() == QueuePairState::error));
    BOOST_TEST(!world.queue_pair(i).error_cause().empty());
    const auto posted = world.queue_pair(i).post_send({.bytes = bytes});
    BOOST_REQUIRE(!posted);
    BOOST_TEST((posted.error().code == Errc::peer_failed));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_message_waits_for_its_receive_and_for_no_longer_than_patience, World,
                              Worlds) {
  std::vector<std::byte> receive(100), bytes(100, std::byte{9});
  {
    World world;
    BOOST_REQUIRE(world.queue_pair(0).post_send({.work_id = 1, .bytes = bytes}));
    BOOST_REQUIRE(world.queue_pair(0).post_write({.work_id = 2, .immediate = 8}));
    BOOST_TEST(!world.queue_pair(1).error_cause().size());
    BOOST_REQUIRE(world.queue_pair(1).post_receive({.work_id = 3, .bytes = receive}));
    BOOST_REQUIRE(world.run_until_completed(0, 1));
    BOOST_REQUIRE(world.queue_pair(1).post_receive({.work_id = 4}));
    BOOST_REQUIRE(world.run_until_completed(0, 2));
    BOOST_REQUIRE(world.run_until_completed(1, 2));
    for (const std::size_t i : {0U, 1U}) BOOST_TEST(world.queue_pair(i).error_cause() == "");
    BOOST_TEST((receive == bytes));
    BOOST_TEST(world.completions(1)[1].immediate.value_or(0) == 8u);
  }
  World world({.rnr_patience = milliseconds(30)});
  BOOST_REQUIRE(world.queue_pair(0).post_send({.work_id = 1, .bytes = bytes}));
  BOOST_REQUIRE(world.run_until_completed(0, 1));
  BOOST_TEST((world.completions(0)[0].status == WorkStatus::rnr_retry_exceeded));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(queues_are_as_deep_as_asked_for, World, Worlds) {
  World world({.send_depth = 3, .receive_depth = 2});
  std::array<std::byte, 8> bytes{}, receive{};
  for (int round = 0; round < 3; ++round) {
    const auto full = [](const Result<void>& posted) {
      return !posted && posted.error().code == Errc::would_block;
    };
    for (std::uint64_t i = 0; i < 3; ++i)
      BOOST_REQUIRE(world.queue_pair(0).post_write({.work_id = i, .bytes = {}}));
    BOOST_TEST(full(world.queue_pair(0).post_send({.bytes = bytes})));
    for (std::uint64_t i = 0; i < 2; ++i)
      BOOST_REQUIRE(world.queue_pair(1).post_receive({.work_id = i, .bytes = receive}));
    BOOST_TEST(full(world.queue_pair(1).post_receive({.bytes = receive})));
    BOOST_REQUIRE(world.run_until_completed(0, 3));
    for (std::uint64_t i = 0; i < 2; ++i) BOOST_REQUIRE(world.queue_pair(0).post_send({.bytes = bytes}));
    BOOST_REQUIRE(world.run_until_completed(0, 5));
    BOOST_REQUIRE(world.run_until_completed(1, 2));
    world.completions(0).clear();
    world.completions(1).clear();
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_send_takes_a_key_of_the_peer_s_out_of_use, World, Worlds) {
  World world;
  std::array<std::byte, 64> memory{}, receive{}, local{};
  const auto region = *world.fabric(1).register_memory(memory, MemoryUse::general, kAll);
  BOOST_REQUIRE(world.queue_pair(1).post_receive({5, receive}));
  BOOST_REQUIRE(
      world.queue_pair(0).post_send({.work_id = 1, .bytes = local, .invalidate = region->remote_key()}));
  BOOST_REQUIRE(world.run_until_completed(0, 1));
  BOOST_REQUIRE(world.run_until_completed(1, 1));
  BOOST_TEST((world.completions(1)[0].invalidated == region->remote_key()));
  BOOST_REQUIRE(world.queue_pair(0).post_read({2, local, region->remote_address(), region->remote_key()}));
  BOOST_REQUIRE(world.run_until_completed(0, 2));
  BOOST_TEST((world.completions(0)[1].status == WorkStatus::remote_access));
  BOOST_TEST(!world.queue_pair(0).post_send({.immediate = 1, .invalidate = region->remote_key()}));
}

BOOST_AUTO_TEST_SUITE_END()
