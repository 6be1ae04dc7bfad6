// Tests a Link over a fake queue pair, for cases that neither a network nor a device can produce.
#include "lib/unicast/link.hpp"

#include <boost/test/unit_test.hpp>
#include <new>

#include "tests/lib/unicast/endpoints.hpp"

BOOST_AUTO_TEST_SUITE(link_test)

using namespace rdmc;
using namespace rdmc::testing;
using unicast::Link;

namespace {

struct Played {
  std::vector<std::uint64_t> posted;              ///< the work ids of the posted work requests
  std::optional<std::uint64_t> lacks_memory_for;  ///< a post with this work id throws std::bad_alloc
  std::size_t completed = 0;
};

class PlayedQueuePair final : public fabric::QueuePair {
 public:
  explicit PlayedQueuePair(Played& played) : played_(played) {}
  fabric::QueuePairState state() const noexcept override { return fabric::QueuePairState::ready; }
  std::string error_cause() const override { return ""; }
  Result<void> post_send(const fabric::SendRequest& request) override { return post(request.work_id); }
  Result<void> post_write(const fabric::WriteRequest& request) override { return post(request.work_id); }
  Result<void> post_read(const fabric::ReadRequest& request) override { return post(request.work_id); }
  Result<void> post_atomic(const fabric::AtomicRequest& request) override { return post(request.work_id); }
  Result<void> post_receive(const fabric::ReceiveRequest& request) override { return post(request.work_id); }
  std::size_t poll_completions(std::span<fabric::Completion> out) override {
    std::size_t count = 0;
    while (played_.completed < played_.posted.size() && count < out.size())
      out[count++] = {.work_id = played_.posted[played_.completed++], .kind = WorkKind::atomic};
    return count;
  }
  fabric::ConnectionBlob local_blob() const override { return {}; }
  Result<void> connect(std::span<const std::byte>) override { return {}; }

 private:
  /// Accepts the work request. Throws std::bad_alloc after that if `lacks_memory_for` is this work id.
  Result<void> post(std::uint64_t work_id) {
    played_.posted.push_back(work_id);
    if (work_id == played_.lacks_memory_for) throw std::bad_alloc();
    return {};
  }
  Played& played_;
};

class PlayedFabric final : public fabric::Fabric {
 public:
  explicit PlayedFabric(Played& played) : played_(played) {}
  fabric::FabricInfo info() const override { return {.name = "played"}; }
  Result<std::unique_ptr<fabric::QueuePair>> create_queue_pair(const fabric::QueuePairOptions&) override {
    return std::make_unique<PlayedQueuePair>(played_);
  }
  Result<std::unique_ptr<fabric::MemoryRegion>> register_memory(std::span<std::byte>, fabric::MemoryUse,
                                                                RemoteAccess) override {
    return fail(Errc::unsupported, "not played");
  }
  std::size_t progress(Time) override { return 0; }
  Time next_deadline() const override { return Time::never(); }
  void wait(Time) override {}
  void wake() noexcept override {}
  std::uint64_t bytes_copied() const override { return 0; }

 private:
  Played& played_;
};

struct World {
  explicit World(const unicast::LinkOptions& options) : link(ConnectionId{1}, options, [] {}) {
    BOOST_REQUIRE(link.make_queue_pair(fabric));
    BOOST_REQUIRE(link.open({}));
  }
  std::vector<std::uint64_t> take(std::size_t count) {
    std::vector<std::uint64_t> ids;
    for (const Completion& one : std::span(completions).first(count)) ids.push_back(one.work_id);
    return ids;
  }
  Played played;
  PlayedFabric fabric{played};
  Link link;
  std::array<fabric::Completion, 8> polled;
  std::array<Completion, 8> completions;
};

constexpr fabric::AtomicRequest atomic(std::uint64_t work_id) {
  return {.work_id = work_id, .remote_address = 8};
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_operation_that_the_queue_pair_lacked_memory_for_is_posted_once_and_is_the_last) {
  World world({});
  for (std::uint64_t id = 0; id < 4; ++id) BOOST_REQUIRE(world.link.ask(atomic(id)));
  world.played.lacks_memory_for = 1;
  for (int turn = 0; turn < 3; ++turn) world.link.post_asked();
  BOOST_REQUIRE(world.link.ask(atomic(4)));
  world.link.post_asked();
  BOOST_TEST(world.played.posted == (std::vector<std::uint64_t>{0, 1}), boost::test_tools::per_element());
  const auto fault = world.link.fault();
  BOOST_REQUIRE(fault);
  BOOST_TEST((fault->error.code == Errc::resource_limit && fault->is_explained));
  // Each operation must have exactly one completion.
  BOOST_TEST(
      world.take(world.link.poll(world.polled, world.completions)) == (std::vector<std::uint64_t>{0, 1}),
      boost::test_tools::per_element());
  world.link.close();
  world.link.destroy_queue_pair();
  BOOST_TEST(world.take(world.link.flush(world.completions)) == (std::vector<std::uint64_t>{2, 3, 4}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_the_fabric_cannot_do_is_refused_at_the_call_and_costs_nothing) {
  World world({.send_depth = 1, .capabilities = {.atomics = false, .largest_message = 100}});
  std::vector<std::byte> bytes(101);
  BOOST_TEST(failed_with(world.link.ask(atomic(0)), Errc::unsupported));
  BOOST_TEST(failed_with(world.link.ask(fabric::WriteRequest{.bytes = bytes}), Errc::invalid_argument));
  BOOST_TEST(failed_with(world.link.ask(fabric::ReadRequest{.bytes = bytes}), Errc::invalid_argument));
  BOOST_TEST(world.link.post_asked() == 0U);
  BOOST_TEST(!world.link.fault().has_value());
  bytes.pop_back();
  BOOST_TEST(world.link.ask(fabric::WriteRequest{.bytes = bytes}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
