// An endpoint ends while its thread has no memory. Memory is lacking in its last upcalls, and in the library
// around them. The process must continue. Every completion must be handed out or counted as dropped. The end
// must be reported once.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <thread>

#include "tests/failing_memory.hpp"
#include "tests/lib/unicast/endpoints.hpp"

using namespace rdmc;
using namespace rdmc::testing;

namespace {

constexpr std::size_t kReceives = 100;  // these are more completions than one batch has

/// An endpoint that has posted kReceives receives. No message arrives for them. While the endpoint ends, its
/// upcalls are counted. The upcalls call `when_completed` and `when_disconnected`, which may throw.
struct Waiting {
  Waiting(Party& peer, bool own_thread) {
    EndpointCallbacks on;
    on.completed = [this](std::span<const Completion> some) {
      when_completed();
      completed += some.size();
    };
    on.disconnected = [this](const Connection&, const Error&) {
      ++disconnected;
      dropped = raw->counters().completions_dropped;
      when_disconnected();
    };
    auto made = Endpoint::create(
        {.name = "test", .fabric = "udp", .insecure = true, .context = context, .own_thread = own_thread},
        on);
    BOOST_REQUIRE(made);
    endpoint = std::move(*made);
    raw = endpoint.get();
    const auto connection = endpoint->connect(peer.place(), kPatience);
    BOOST_REQUIRE(connection);
    for (std::size_t i = 0; i < kReceives; ++i) BOOST_REQUIRE(connection->post_receive({}, i));
  }
  /// Ends the endpoint. Checks that no completion was lost.
  void end() {
    endpoint.reset();
    BOOST_TEST(completed + dropped == kReceives);
    BOOST_TEST(disconnected == 1U);
  }

  std::function<void()> when_completed = [] {}, when_disconnected = [] {};
  std::atomic<std::size_t> completed = 0, disconnected = 0, dropped = 0;
  std::shared_ptr<Context> context = std::make_shared<Context>();
  std::unique_ptr<Endpoint> endpoint;
  const Endpoint* raw = nullptr;  ///< valid until the destructor of the endpoint returns
};

template <typename Case>
void with_and_without_own_thread(Case run) {
  Party peer({.fabric = "udp"});
  for (const bool own_thread : {true, false}) BOOST_TEST_CONTEXT("own thread: " << own_thread) {
      run([&] { return std::make_unique<Waiting>(peer, own_thread); });
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(nothing_is_lost_whichever_allocation_fails_after_the_first_of_the_last_upcalls) {
  with_and_without_own_thread([](auto make) {
    std::atomic<bool> has_failed = true;
    for (long count = 0; has_failed; ++count) {
      const auto waiting = make();
      bool is_first = true;
      waiting->when_completed = [&] {
        if (std::exchange(is_first, false)) fail_allocations(count, 1);
      };
      waiting->when_disconnected = [&] { has_failed = end_failures() > 0; };
      BOOST_TEST_CONTEXT("allocation " << count) {
        waiting->end();
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(completions_whose_upcall_lacks_memory_are_counted_as_dropped) {
  with_and_without_own_thread([](auto make) {
    const auto waiting = make();
    waiting->when_completed = [] { throw std::bad_alloc(); };
    waiting->end();
    BOOST_TEST(waiting->dropped == kReceives);
  });
}

BOOST_AUTO_TEST_CASE(an_end_whose_upcall_lacks_memory_is_told_once_all_the_same) {
  with_and_without_own_thread([](auto make) {
    const auto waiting = make();
    waiting->when_disconnected = [] { throw std::bad_alloc(); };
    waiting->end();
    BOOST_TEST(waiting->dropped == 0U);
  });
}

BOOST_AUTO_TEST_CASE(an_application_that_drives_the_engine_goes_on_after_an_upcall_that_lacked_memory) {
  Party peer({.fabric = "udp"});
  Waiting waiting(peer, false);
  waiting.when_completed = [] { throw std::bad_alloc(); };
  const auto there = peer.connection();
  BOOST_REQUIRE(there.send({}, 1));
  const auto is_over = [&] {
    std::array<Completion, 1> none;
    waiting.endpoint->poll(none, milliseconds(10));
    return waiting.disconnected == 1;
  };
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kPatience.ns);
       !is_over();)
    BOOST_REQUIRE(std::chrono::steady_clock::now() < end);
  waiting.end();
}

namespace {

/// Collects the results of connect(). A test can wait for them.
class Told {
 public:
  void tell(Result<Connection> made) {
    const MemoryOfTest has_memory;
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(made));
    changed_.notify_all();
  }
  /// Waits for the first result, and returns all results. If there is none within the limit, the test fails.
  std::vector<Result<Connection>> wait() {
    std::unique_lock lock(mutex_);
    BOOST_REQUIRE(
        changed_.wait_for(lock, std::chrono::nanoseconds(kPatience.ns), [this] { return !all_.empty(); }));
    return all_;
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Result<Connection>> all_;
};

/// Connects repeatedly. Each time, another allocation of the thread of `on_thread` fails. Ends when a connect
/// needs so few allocations that none fails.
template <typename OnThread>
void connect_without_memory(Party& us, Party& other, OnThread on_thread) {
  long failed = 1;
  for (long count = 0; failed != 0; ++count) {
    BOOST_TEST_CONTEXT("allocation " << count) {
      const auto told = std::make_shared<Told>();
      on_thread([&] { fail_allocations(count, 1); });
      us->connect(other.place(), milliseconds(100),
                  [told](Result<Connection> made) { told->tell(std::move(made)); });
      const auto results = told->wait();
      on_thread([&] { failed = end_failures(); });
      BOOST_TEST(results.size() == 1U);
      if (results[0]) results[0]->disconnect();
      BOOST_TEST(told->count() == 1U);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(whichever_allocation_of_the_control_loop_fails_whoever_connects_is_told_once) {
  Party us({.fabric = "udp"}), other({.fabric = "udp"});
  const auto loop = us.context->loop().value();
  connect_without_memory(us, other, [&](auto run) { loop->call(run); });
}

BOOST_AUTO_TEST_CASE(whichever_allocation_of_the_fabric_thread_fails_whoever_connects_is_told_once) {
  Party us({.fabric = "udp"}), other({.fabric = "udp"});
  const auto thread = us.context->fabric_thread({.fabric = "udp"}).value();
  BOOST_REQUIRE(us.context->threads() == 1U);
  connect_without_memory(us, other, [&](auto run) { thread->call(run); });
}

BOOST_AUTO_TEST_CASE(whichever_allocation_fails_as_a_connection_is_asked_for_it_is_made_or_the_call_throws) {
  Party us({.fabric = "udp"}), other({.fabric = "udp"});
  long failed = 1;
  for (long count = 0; failed != 0; ++count) {
    const auto told = std::make_shared<Told>();
    auto place = other.place();
    Endpoint::ConnectDone done = [told](Result<Connection> made) { told->tell(std::move(made)); };
    bool has_thrown = false;
    fail_allocations(count, 1);
    try {
      us->connect(std::move(place), kPatience, std::move(done));
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
    failed = end_failures();
    if (!has_thrown) BOOST_TEST(told->wait().size() == 1U);
    if (has_thrown) BOOST_TEST(told->count() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(a_connection_whose_upcall_lacks_memory_ends_and_no_other_one) {
  std::vector<std::byte> room(8);
  Party us({.fabric = "udp"}), other({.fabric = "udp"});
  other.when_connected = [&](const Connection&) {
    if (other.connections() == 1) throw std::bad_alloc();
  };
  const auto [here, there] = connect(us, other);
  const auto second = us->connect(other.place(), kPatience);
  // The end of the connection may be reported before connect() has reported the connection.
  BOOST_TEST(((second ? us.end_of(*second) : second.error()).code == Errc::peer_failed));
  us->connect(other.place(), kPatience, [](const Result<Connection>&) { throw std::bad_alloc(); });
  other.wait_for_end();
  BOOST_REQUIRE(there.post_receive(room, 1));
  BOOST_REQUIRE(here.send_copy(bytes_of("goes on!"), 2));
  BOOST_TEST(is(us.next(), WorkKind::send, 2));
  BOOST_TEST((room == bytes_of("goes on!")));
}

BOOST_AUTO_TEST_CASE(a_region_ends_without_memory) {
  for (const Way way : {Way::polls, Way::drives_and_polls}) {
    for (const bool elsewhere : {false, true}) {
      BOOST_TEST_CONTEXT("way " << static_cast<int>(way) << ", another thread: " << elsewhere) {
        std::vector<std::byte> memory(64), others(64);
        const std::vector<std::byte> bytes(8, std::byte{1});
        Party peer({.fabric = "udp"}), owner({.fabric = "udp"}, way);
        const auto [there, here] = connect(owner, peer);
        auto region = *owner->register_memory(memory, RemoteAccess::write);
        const auto key = *region.grant(there);
        long failed = -1;
        const auto end = [&] {
          fail_allocations(0);
          {
            Region ends = std::move(region);
            ends = Region();
          }
          failed = end_failures();
        };
        if (elsewhere)
          std::thread(end).join();
        else
          end();
        BOOST_TEST(failed == 0);
        // If the endpoint has no thread, the region ends in this turn.
        owner->poll({});
        BOOST_REQUIRE(here.write(bytes, key, 0, 1));
        while (peer.disconnected() == 0) owner->poll({}, milliseconds(1));
        BOOST_TEST(is(peer.next(), WorkKind::write, 1, WorkStatus::remote_access));
        BOOST_TEST((memory == std::vector<std::byte>(64)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(to_be_told_that_a_queue_is_full_takes_no_memory) {
  std::vector<std::byte> bytes(8);
  Party other({.fabric = "udp"}), us({.fabric = "udp", .send_depth = 100, .receive_depth = 1});
  const auto [here, there] = connect(us, other);
  fail_allocations(0);
  std::array<Result<void>, 3> refused;
  while (refused[0]) refused[0] = here.post_receive(bytes, 0);
  while (refused[1]) refused[1] = here.send_copy(bytes, 0);
  while (refused[2]) refused[2] = here.send(bytes, 0);
  BOOST_TEST(end_failures() == 0);
  for (const auto& one : refused) BOOST_TEST(failed_with(one, Errc::would_block));
}
