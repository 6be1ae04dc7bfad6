// The last upcalls of an endpoint that ends, and the library around them, while their thread has no memory:
// the process goes on, every completion is handed out or counted as dropped, and the end is told once.
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <functional>

#include "tests/failing_memory.hpp"
#include "tests/lib/unicast/endpoints.hpp"

using namespace rdmc;
using namespace rdmc::testing;

namespace {

constexpr std::size_t kReceives = 100;  // more than one batch

/// An endpoint with so many receives that nothing will come for. What it tells while it ends is noted, and
/// then `when_completed` and `when_disconnected` are called, which may throw.
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
  /// Checks that nothing was lost.
  void end() {
    endpoint.reset();
    BOOST_TEST(completed + dropped == kReceives);
    BOOST_TEST(disconnected == 1U);
  }

  std::function<void()> when_completed = [] {}, when_disconnected = [] {};
  std::atomic<std::size_t> completed = 0, disconnected = 0, dropped = 0;
  std::shared_ptr<Context> context = std::make_shared<Context>();
  std::unique_ptr<Endpoint> endpoint;
  const Endpoint* raw = nullptr;  ///< good until its destructor has returned
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
