#include "dataplane/engine/engine.hpp"

#include <boost/test/unit_test.hpp>
#include <semaphore>
#include <thread>

BOOST_AUTO_TEST_SUITE(engine_test)

using namespace rdmc;
using namespace rdmc::engine;

namespace {

// Blocks on a semaphore, so that a lost wake-up would hang the test instead of passing late.
struct FakeWaiter final : Waiter {
  void wait(Time deadline) override {
    deadlines.push_back(deadline);
    if (deadline == Time{0}) return;
    waiting.release();
    woken.acquire();
  }
  void wake() noexcept override { woken.release(); }
  std::vector<Time> deadlines;
  std::counting_semaphore<> waiting{0}, woken{0};
};

struct CountingAgent final : Agent {
  std::size_t work(Time) override { return todo > 0 ? static_cast<std::size_t>(todo--) : 0; }
  Time next_deadline() const override { return deadline; }
  int todo = 0;
  Time deadline = Time::never();
};

constexpr IdleStrategy kNoSpin{.spin = nanoseconds(0)};

}  // namespace

BOOST_AUTO_TEST_CASE(posted_work_runs_on_the_engine_thread_in_order_even_while_it_sleeps) {
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  std::vector<int> order;
  std::thread::id where;
  std::thread thread([&] { engine.run(); });
  const auto engine_thread = thread.get_id();
  waiter.waiting.acquire();  // it sleeps now
  std::binary_semaphore done{0};
  BOOST_REQUIRE(engine.post([&] { order.push_back(1); }));
  BOOST_REQUIRE(engine.post([&] {
    order.push_back(2);
    where = std::this_thread::get_id();
    done.release();
  }));
  done.acquire();
  engine.stop();
  thread.join();
  BOOST_TEST((order == std::vector<int>{1, 2}));
  BOOST_TEST((where == engine_thread));
}

BOOST_AUTO_TEST_CASE(work_posted_before_stop_is_done_before_run_returns) {
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  bool done = false;
  BOOST_REQUIRE(engine.post([&] { done = true; }));
  engine.stop();
  engine.run();
  BOOST_TEST(done);
}

BOOST_AUTO_TEST_CASE(a_full_queue_refuses_work_by_name) {
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  for (std::size_t i = 0; i < Engine::kQueueDepth; ++i) BOOST_REQUIRE(engine.post([] {}));
  const auto refused = engine.post([] {});
  BOOST_REQUIRE(!refused);
  BOOST_TEST(static_cast<int>(refused.error().code) == static_cast<int>(Errc::would_block));
  engine.poll(Time{});
  BOOST_TEST(engine.post([] {}).has_value());
}

BOOST_AUTO_TEST_CASE(an_idle_engine_sleeps_until_its_earliest_deadline) {
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  CountingAgent early, late;
  early.deadline = Time{0};
  late.deadline = Time{500};
  engine.add(late);
  engine.add(early);
  engine.turn(seconds(1));
  BOOST_REQUIRE(waiter.deadlines.size() == 1u);
  BOOST_TEST((waiter.deadlines[0] == Time{0}));
}

BOOST_AUTO_TEST_CASE(an_engine_with_work_does_not_sleep) {
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  CountingAgent agent;
  agent.todo = 2;
  agent.deadline = Time{0};
  engine.add(agent);
  engine.turn(seconds(1));
  engine.turn(seconds(1));
  BOOST_TEST(waiter.deadlines.empty());
  engine.turn(seconds(1));
  BOOST_TEST(waiter.deadlines.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_busy_polling_engine_never_sleeps) {
  FakeWaiter waiter;
  Engine engine(waiter, {.spin = nanoseconds(0), .busy_poll = true});
  for (int i = 0; i < 1000; ++i) engine.turn(seconds(1));
  BOOST_TEST(waiter.deadlines.empty());
}

BOOST_AUTO_TEST_CASE(a_removed_agent_gets_no_more_turns) {
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  CountingAgent agent;
  agent.todo = 5;
  engine.add(agent);
  engine.poll(Time{});
  engine.remove(agent);
  engine.poll(Time{});
  BOOST_TEST(agent.todo == 4);
}

BOOST_AUTO_TEST_SUITE_END()
