// Lets memory run out on each thread of an agent. This must end neither the process nor a thread. The
// operation that lacks memory fails with a named error, and the next transfer succeeds.
#include <algorithm>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <future>
#include <mutex>
#include <semaphore>

#include "apps/bcast-cli/agent.hpp"
#include "apps/bcast-cli/data_plane_proxy.hpp"
#include "apps/bcast-cli/file_sink.hpp"
#include "apps/bcast-cli/file_source.hpp"
#include "apps/bcast-cli/sender.hpp"
#include "apps/program/worker.hpp"
#include "controlplane/peer/context.hpp"
#include "tests/apps/bcast-cli/scratch_directory.hpp"
#include "tests/apps/bcast-cli/store_harness.hpp"
#include "tests/failing_memory.hpp"
#include "tests/sampled.hpp"

/// Replaces the function by which a control loop allocates memory for posted tasks.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  void* memory = nullptr;
  if (rdmc::testing::may_allocate()) static_cast<void>(::posix_memalign(&memory, alignment, size));
  return memory;
}

using namespace rdmc;
using namespace rdmc::bcast;
using namespace rdmc::testing;

namespace {

constexpr std::uint32_t kBlock = 4096;

/// An agent, and several transfers to it, one after the other. The test can let memory run out on the agent's
/// fabric thread.
struct Transfers {
  Transfers() {
    write_file(scratch / "source", content);
    auto root = ReceiveDirectory::open(scratch / "root", ReceiveDirectory::Missing::make);
    BOOST_TEST_REQUIRE(root.has_value());
    auto started = Agent::start(*loop, std::move(*root), address, security,
                                [this](const Reception::Outcome& outcome) {
                                  const std::lock_guard lock(mutex);
                                  causes.push_back(outcome.event.cause);
                                },
                                {}, kMaxReceptions, {.name = "udp"});
    BOOST_TEST_REQUIRE(started.has_value());
    agent = std::move(*started);
  }

  bool is_copied() {
    auto source = SourceFile::open(scratch / "source", kBlock).value();
    std::filesystem::remove(scratch / "root" / "copy");
    SenderConfig config{.job = {.destination = "copy",
                                .source_name = "source",
                                .shape = source.shape(),
                                .allocated_bytes = source.allocated_bytes(),
                                .mode = source.permissions()},
                        .targets = {},
                        .security = security,
                        .connect_within = seconds(10),
                        .wishes = {.suspect_after = seconds(5)},
                        .fabric = {.name = "udp"}};
    config.targets.push_back(
        {to_string(agent->address()), host_string(agent->address()), agent->address().port});
    std::promise<SenderResult> ended;
    auto sender = Sender::start(*loop, source, *reporter, std::move(config), session::SessionId{},
                                [&](SenderResult result) { ended.set_value(std::move(result)); });
    BOOST_TEST_REQUIRE(sender.has_value());
    const bool ok = ended.get_future().get().summary.ok == 1;
    loop->call([&] { sender->reset(); });
    agent->finish(seconds(60));
    BOOST_TEST_REQUIRE(!agent->is_busy());
    if (ok) BOOST_TEST_REQUIRE((file_content(scratch / "root" / "copy") == content));
    return ok;
  }

  /// Runs a transfer in which `spared` allocations of the fabric thread succeed and the next `count` fail.
  /// Returns false if the transfer needed so few allocations that none failed.
  bool meets_failures(long spared, long count) {
    thread->call([&] { fail_allocations(spared, count); });
    const bool ok = is_copied();
    const bool has_failed = thread->call(end_failures) > 0;
    const std::lock_guard lock(mutex);
    if (!ok) BOOST_TEST_REQUIRE(has_failed);
    if (!ok) BOOST_TEST_REQUIRE(causes.back().starts_with("no memory"), causes.back());
    return has_failed;
  }

  ScratchDirectory scratch;
  const std::string content = random_text(40 * kBlock, 1);
  const Address address = Address::ipv4(127, 0, 8, 1, 0);
  const control::Security security =
      control::TlsContext::create(control::ClusterKey::generate().value()).value();
  /// The fabric thread that the agent uses. This reference is taken before the agent starts and keeps the
  /// thread alive between transfers.
  const std::shared_ptr<peer::FabricThread> thread =
      peer::Context::of_process()
          ->fabric_thread({.fabric = "udp", .address = address, .device = {}, .idle = {}})
          .value();
  const std::unique_ptr<control::ControlLoop> loop = control::ControlLoop::create().value();
  const std::unique_ptr<Reporter> reporter = Reporter::start(false).value();
  std::mutex mutex;
  std::vector<std::string> causes;
  std::unique_ptr<Agent> agent;
};

/// Throws std::bad_alloc. The next `next` allocations of the calling thread also fail.
[[noreturn]] void lack_memory(long next = 0) {
  fail_allocations(0, next);
  throw std::bad_alloc();
}

}  // namespace

BOOST_DATA_TEST_CASE(an_agent_whose_fabric_thread_lacks_memory_loses_one_transfer_and_serves_the_next,
                     boost::unit_test::data::make({1L, 20L}), count) {
  Transfers transfers;
  BOOST_TEST_REQUIRE(transfers.is_copied());
  long spared = 0;
  for (; transfers.meets_failures(spared, count); spared += all_or(1L, 3L))
    BOOST_TEST_CONTEXT("allocation " << spared) BOOST_TEST_REQUIRE(transfers.is_copied());
  BOOST_TEST(spared > 20);
  // Checks that memory ran out in the turns of the data path, in addition to the commands.
  BOOST_TEST(std::ranges::count(transfers.causes, "no memory for the transfer's data") > 0);
}

BOOST_AUTO_TEST_CASE(a_data_plane_gives_all_answers_in_order_however_long_its_thread_lacks_memory) {
  const Address address = Address::ipv4(127, 0, 8, 2, 0);
  const auto thread = peer::Context::of_process()
                          ->fabric_thread({.fabric = "udp", .address = address, .device = {}, .idle = {}})
                          .value();
  const auto loop = control::ControlLoop::create().value();
  const auto proxy =
      DataPlaneProxy::open(*loop, {.name = "udp"}, address, kBlock, {.delivered = {}, .failed = {}}).value();
  std::promise<Errc> formed;
  std::promise<bool> waits;
  thread->call([] { fail_allocations(0, 200); });
  loop->call([&] {
    proxy->form(Epoch{1}, Rank{0}, {.members = 2},
                [&](const auto& answer) { formed.set_value(answer ? Errc{} : answer.error().code); });
    proxy->standing(
        [&](const DataPlaneProxy::Standing& answer) { waits.set_value(answer.wait.has_value()); });
  });
  BOOST_TEST(!waits.get_future().get());
  auto first = formed.get_future();
  BOOST_TEST_REQUIRE((first.wait_for(std::chrono::seconds(0)) == std::future_status::ready));
  BOOST_TEST((first.get() == Errc::resource_limit));
  BOOST_TEST(thread->call(end_failures) == 200);
}

BOOST_AUTO_TEST_CASE(a_task_that_lacks_memory_is_given_up_and_the_worker_does_the_next) {
  bool has_run = false;
  {
    const auto worker = Worker::start().value();
    worker->post([] { lack_memory(); });
    worker->post([&] { has_run = true; });
  }
  BOOST_TEST(has_run);
}

BOOST_AUTO_TEST_CASE(work_that_lacks_memory_has_a_named_error_as_its_result_however_long_that_lasts) {
  const auto loop = control::ControlLoop::create().value();
  const auto worker = Worker::start().value();
  const auto owner = std::make_shared<std::promise<Result<int>>>();
  run_for(
      std::weak_ptr(owner), *worker, *loop, []() -> Result<int> { lack_memory(3); },
      [](std::promise<Result<int>>& promise, Result<int> result) { promise.set_value(std::move(result)); });
  const auto result = owner->get_future().get();
  BOOST_TEST_REQUIRE(!result);
  BOOST_TEST((result.error().code == Errc::resource_limit));
}

BOOST_AUTO_TEST_CASE(a_writer_that_lacks_memory_tells_the_engine) {
  const ScratchDirectory scratch;
  const FileShape shape{.size = 3 * kBlock, .block_size = kBlock};
  const auto root = ReceiveDirectory::open(scratch.path()).value();
  auto file =
      ReceivedFile::create(
          PartialFile::claim(resolve_destination(root, {"copy", "unused", false}).value(), false, 0600)
              .value(),
          shape, shape.size)
          .value();
  std::vector<std::byte> ring(shape.size);
  Bell bell;
  std::binary_semaphore have_arrived(0);
  bool is_first = true;
  const auto wake_engine = [&] {
    bell.ring();
    if (!std::exchange(is_first, false)) return;
    have_arrived.acquire();
    // This runs on the writer's thread. The thread's list has space for one block and gets two.
    fail_allocations(0);
  };
  const auto sink = FileSink::start(file, BlockMap::full(shape.blocks()), ring, wake_engine).value();
  Result<void> polled;
  std::vector<std::uint64_t> consumed;
  sink->arrived(0, kBlock);
  bell.wait_until([&] { return sink->poll_consumed(consumed) && consumed.size() == 1; });
  sink->arrived(1, kBlock);
  sink->arrived(2, kBlock);
  have_arrived.release();
  bell.wait_until([&] { return !(polled = sink->poll_consumed(consumed)); });
  BOOST_TEST((polled.error().code == Errc::resource_limit));
  BOOST_TEST(polled.error().what == "no memory");
}

BOOST_AUTO_TEST_CASE(a_reader_that_lacks_memory_tells_the_engine) {
  const ScratchDirectory scratch;
  write_file(scratch / "source", random_text(2 * kBlock, 1));
  auto source = SourceFile::open(scratch / "source", kBlock).value();
  std::vector<std::byte> ring(2 * kBlock);
  Bell bell;
  const auto store =
      FileSource::start(
          source, BlockMap::full(2), ring,
          {.limit_rate = {}, .wake = [&] { bell.ring(); }, .announce = [](const Digest&) { lack_memory(); }})
          .value();
  Result<std::uint64_t> available;
  bell.wait_until([&] { return !(available = store->available()); });
  BOOST_TEST((available.error().code == Errc::resource_limit));
  BOOST_TEST(available.error().what == "no memory");
}
