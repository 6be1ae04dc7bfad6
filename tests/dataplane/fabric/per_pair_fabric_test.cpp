// Tests a fabric that chooses the provider for each pair of members. Members with different providers share
// one fabric and one key. A member that uses only one provider can connect to the fabric. A sleep of the
// fabric ends when a message arrives through either provider.
#include "dataplane/fabric/per_pair_fabric.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <future>
#include <random>
#include <thread>

#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/blob_offers.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"

BOOST_AUTO_TEST_SUITE(per_pair_fabric_test)

using namespace rdmc;
using namespace rdmc::fabric;

namespace {

/// Opens the fabric as a program on the host `host_id` would.
OpenedFabric open(std::string_view name, std::uint64_t host_id, std::uint8_t last_byte) {
  auto opened = open_fabric(name, {.address = Address::ipv4(127, 0, 9, last_byte, 0), .device = {}},
                            {.entropy = [] { return std::random_device()(); }, .host_id = host_id});
  BOOST_REQUIRE_MESSAGE(opened, opened.error().what);
  return std::move(*opened);
}

struct Link {
  Link(Fabric& a, Fabric& b) : from(*a.create_queue_pair({})), to(*b.create_queue_pair({})) {
    BOOST_REQUIRE(to->post_receive({.work_id = 3, .bytes = {}}));
    BOOST_REQUIRE(from->connect(to->local_blob()));
    BOOST_REQUIRE(to->connect(from->local_blob()));
  }
  std::unique_ptr<QueuePair> from, to;
};

/// Writes `bytes` into the region over the link. Returns true if the WRITE completes on both sides within 10
/// s.
bool write(Link& link, std::span<const std::byte> bytes, const MemoryRegion& region,
           std::span<Fabric* const> fabrics) {
  BOOST_REQUIRE(link.from->post_write({.bytes = bytes,
                                       .remote_address = region.remote_address(),
                                       .remote_key = region.remote_key(),
                                       .immediate = 7}));
  Completion done;
  std::size_t sent = 0, received = 0;
  for (const Time end = monotonic_now() + seconds(10);
       (sent == 0 || received == 0) && monotonic_now() < end;) {
    for (Fabric* const fabric : fabrics) fabric->progress(monotonic_now());
    sent += link.from->poll_completions({&done, 1});
    received += link.to->poll_completions({&done, 1});
  }
  return sent == 1 && received == 1 && done.status == WorkStatus::success;
}

std::size_t threads() {
  return static_cast<std::size_t>(
      std::ranges::distance(std::filesystem::directory_iterator("/proc/self/task")));
}

/// Its destructor stores in `left` how many threads the process has. A joined thread may stay in /proc for a
/// moment, so the destructor waits up to 1 s until the number is `expected`.
class LastFabric final : public Fabric {
 public:
  LastFabric(std::size_t expected, std::size_t& left) : expected_(expected), left_(left) {}
  ~LastFabric() override {
    const Time end = monotonic_now() + seconds(1);
    while ((left_ = threads()) != expected_ && monotonic_now() < end) std::this_thread::yield();
  }
  FabricInfo info() const override { return {.name = "last"}; }
  Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions&) override { return nothing(); }
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte>, MemoryUse,
                                                        RemoteAccess) override {
    return nothing();
  }
  std::size_t progress(Time) override { return 0; }
  Time next_deadline() const override { return Time::never(); }
  void wait(Time) override {}
  void wake() noexcept override {}
  std::uint64_t bytes_copied() const override { return 0; }

 private:
  static std::unexpected<Error> nothing() { return fail(Errc::unsupported, "nothing here"); }
  std::size_t expected_;
  std::size_t& left_;
};

/// A real fabric above a port, but wait() returns at once and only records how long it was allowed to sleep.
class SleeplessFabric final : public Fabric {
 public:
  explicit SleeplessFabric(std::unique_ptr<Fabric> real) : real_(std::move(real)) {}
  FabricInfo info() const override { return real_->info(); }
  Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) override {
    return real_->create_queue_pair(options);
  }
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory, MemoryUse use,
                                                        RemoteAccess access) override {
    return real_->register_memory(memory, use, access);
  }
  std::size_t progress(Time now) override { return real_->progress(now); }
  Time next_deadline() const override { return real_->next_deadline(); }
  void wait(Time deadline) override { sleeps.push_back(deadline - monotonic_now()); }
  Time prepare_wait(Time deadline) override {
    wait(deadline);
    return deadline;
  }
  void wake() noexcept override { real_->wake(); }
  std::uint64_t bytes_copied() const override { return real_->bytes_copied(); }

  std::vector<Duration> sleeps;

 private:
  std::unique_ptr<Fabric> real_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(nobody_wakes_the_other_fabric_when_that_has_gone) {
  const std::size_t before = threads();
  std::size_t left = 0;
  {
    std::unique_ptr<Fabric> last = std::make_unique<LastFabric>(before, left);
    const auto both =
        PerPairFabric::open({.entropy = [] { return std::random_device()(); }, .host_id = 1}, last);
    BOOST_REQUIRE(both);
    BOOST_TEST(threads() == before + 1);
  }
  BOOST_TEST(left == before);
}

BOOST_AUTO_TEST_CASE(one_key_serves_a_member_on_this_host_and_one_elsewhere) {
  auto here = open("auto", 1, 1), beside = open("auto", 1, 2), far = open("auto", 2, 3);
  BOOST_TEST(here.name == "shm+udp");
  std::vector<std::byte> memory(200'000), bytes(memory.size(), std::byte{5});
  const auto region = *here.fabric->register_memory(memory);
  const std::array<Fabric*, 3> all{here.fabric.get(), beside.fabric.get(), far.fabric.get()};
  for (const auto* other : {&beside, &far}) {
    Link link(*other->fabric, *here.fabric);
    std::ranges::fill(memory, std::byte{0});
    BOOST_TEST(write(link, bytes, *region, all));
    BOOST_TEST((memory == bytes));
    const bool by_packets = here.software->connection_counters().packets_received > 0;
    BOOST_TEST(by_packets == (other == &far));
  }
}

BOOST_AUTO_TEST_CASE(who_chooses_by_itself_and_who_was_told_understand_each_other) {
  for (const std::string_view told : {"shm", "udp"}) {
    for (const bool told_receives : {false, true}) {
      auto chooses = open("auto", 1, 4), other = open(told, 1, 5);
      Fabric& receiver = told_receives ? *other.fabric : *chooses.fabric;
      Fabric& sender = told_receives ? *chooses.fabric : *other.fabric;
      std::vector<std::byte> memory(50'000), bytes(memory.size(), std::byte{5});
      const auto region = *receiver.register_memory(memory);
      Link link(sender, receiver);
      const std::array<Fabric*, 2> both{&sender, &receiver};
      BOOST_TEST(write(link, bytes, *region, both));
      BOOST_TEST((memory == bytes));
      BOOST_TEST((chooses.software->connection_counters().packets_received > 0) == (told == "udp"));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_sleeper_wakes_for_either_kind_and_for_wake) {
  auto here = open("auto", 1, 6);
  const Time began = monotonic_now(), end = began + seconds(20);
  // While this queue pair is not connected, the fabric does not sleep on the futex alone.
  const auto never_connected = *here.fabric->create_queue_pair({});
  for (const std::uint64_t host : {1U, 2U}) {
    auto to = *here.fabric->create_queue_pair({});
    BOOST_REQUIRE(to->post_receive({.work_id = 3, .bytes = {}}));
    std::promise<ConnectionBlob> promised;
    std::atomic<bool> received = false;
    std::thread sender([&, blob = to->local_blob()] {  // A port may be used by only one thread.
      auto other = open("auto", host, static_cast<std::uint8_t>(6 + host));
      auto from = *other.fabric->create_queue_pair({});
      const bool connected = from->connect(blob).has_value();
      promised.set_value(from->local_blob());
      // After this pause, the other side is usually asleep. The test must also pass if it is awake.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (connected) (void)from->post_write({.immediate = 1});
      Completion done;
      for (bool sent = false; !(sent && received) && monotonic_now() < end;) {
        other.fabric->progress(monotonic_now());
        sent = sent || from->poll_completions({&done, 1}) != 0;
      }
    });
    BOOST_REQUIRE(to->connect(promised.get_future().get()));
    Completion done;
    while (to->poll_completions({&done, 1}) == 0 && monotonic_now() < end)
      if (here.fabric->progress(monotonic_now()) == 0)
        here.fabric->wait(std::min(here.fabric->next_deadline(), end));
    BOOST_TEST((done.status == WorkStatus::success && done.work_id == 3));
    received = true;
    for (const Time until = monotonic_now() + milliseconds(5); monotonic_now() < until;)
      here.fabric->progress(monotonic_now());  // This sends the answer.
    sender.join();
  }
  std::thread waker([&] { here.fabric->wake(); });
  here.fabric->wait(end);
  waker.join();
  BOOST_TEST((monotonic_now() - began < seconds(3)));
}

// To wake this fabric, a peer on this host first resets the word of the fabric's doorbell, and then sends a
// message. If the peer is stopped between these two steps, no message wakes the fabric. The other peers do
// not wake it either, because the word says that it is awake.
BOOST_AUTO_TEST_CASE(a_peer_on_this_host_bounds_every_sleep_because_another_may_have_taken_the_wake_up_away) {
  auto far = open("udp", 1, 12), beside = open("auto", 1, 13);
  auto sleepless = std::make_unique<SleeplessFabric>(std::move(far.fabric));
  std::vector<Duration>& sleeps = sleepless->sleeps;
  std::unique_ptr<Fabric> remote = std::move(sleepless);
  const auto here =
      *PerPairFabric::open({.entropy = [] { return std::random_device()(); }, .host_id = 1}, remote);
  // While this queue pair is not connected, the fabric does not sleep on the futex alone.
  const auto never_connected = *here->create_queue_pair({});
  here->wait(Time::never());
  BOOST_REQUIRE(sleeps.size() == 1u);
  // No peer has mapped the doorbell yet, so the sleep has no bound.
  BOOST_TEST((sleeps.back() > seconds(3600)));

  std::vector<std::byte> memory(100), bytes(100, std::byte{1});
  const auto region = *here->register_memory(memory);
  Link link(*beside.fabric, *here);
  const std::array<Fabric*, 2> both{here.get(), beside.fabric.get()};
  BOOST_REQUIRE(write(link, bytes, *region, both));
  for (const bool in_own_loop : {false, true}) {
    sleeps.clear();
    for (const Time end = monotonic_now() + seconds(10); sleeps.empty() && monotonic_now() < end;) {
      here->progress(monotonic_now());
      if (!in_own_loop) {
        here->wait(Time::never());
      } else {
        here->prepare_wait(Time::never());
        here->finish_wait();
      }
    }
    BOOST_REQUIRE(sleeps.size() == 1u);
    BOOST_TEST((sleeps.back() <= shm::Doorbell::kLongestSleep));
  }
}

BOOST_AUTO_TEST_CASE(a_key_is_revoked_for_both_kinds) {
  auto here = open("auto", 1, 9), beside = open("auto", 1, 10), far = open("auto", 2, 11);
  std::vector<std::byte> memory(100), bytes(100, std::byte{1});
  for (auto* other : {&beside, &far}) {
    auto region = here.fabric->register_memory(memory);
    const WriteRequest request{
        .bytes = bytes, .remote_address = (*region)->remote_address(), .remote_key = (*region)->remote_key()};
    region->reset();
    Link link(*other->fabric, *here.fabric);
    BOOST_REQUIRE(link.from->post_write(request));
    Completion done;
    for (const Time end = monotonic_now() + seconds(10);
         link.from->poll_completions({&done, 1}) == 0 && monotonic_now() < end;) {
      other->fabric->progress(monotonic_now());
      here.fabric->progress(monotonic_now());
    }
    BOOST_TEST((done.status == WorkStatus::remote_access));
    BOOST_TEST((memory[0] == std::byte{0}));
  }
}

BOOST_AUTO_TEST_CASE(offers_survive_being_joined_and_anything_else_is_one_offer) {
  const ConnectionBlob local(9, std::byte{1}), remote(5, std::byte{2});
  auto joined = join_offers(local, remote);
  BOOST_TEST(std::ranges::equal(split_offers(joined).local, local));
  BOOST_TEST(std::ranges::equal(split_offers(joined).remote, remote));
  for (std::size_t size = 0; size < joined.size() - remote.size(); ++size) {
    const auto cut = std::span(joined).first(size);
    BOOST_TEST(split_offers(cut).local.empty());
    BOOST_TEST(std::ranges::equal(split_offers(cut).remote, cut));
  }
  joined[0] = std::byte{0};
  BOOST_TEST(split_offers(joined).remote.size() == joined.size());
}

BOOST_AUTO_TEST_CASE(a_fabric_that_does_not_exist_is_refused_with_the_names_of_all_that_do) {
  const auto opened = open_fabric("pigeon", {.address = Address::ipv4(127, 0, 0, 1, 0), .device = {}},
                                  {.entropy = [] { return 0U; }});
  BOOST_REQUIRE(!opened);
  BOOST_TEST((opened.error().code == Errc::not_found));
  for (const std::string& name : fabric_names()) BOOST_TEST(opened.error().what.contains(name));
  BOOST_TEST(opened.error().what.contains("shm, verbs"));
}

BOOST_AUTO_TEST_SUITE_END()
