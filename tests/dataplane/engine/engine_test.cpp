#include "dataplane/engine/engine.hpp"

#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>
#include <semaphore>
#include <thread>

BOOST_AUTO_TEST_SUITE(engine_test)

using namespace rdmc;
using namespace rdmc::engine;

namespace {

// This waiter blocks on a semaphore, so a lost wake-up hangs the test.
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

struct CountingPoller final : Poller {
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
  waiter.waiting.acquire();  // From here on, the engine sleeps.
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

// This test runs on the real processor, with the engine's own queue. A lost wake-up hangs it.
BOOST_AUTO_TEST_CASE(an_engine_that_blocks_again_and_again_misses_no_post) {
  constexpr int kPosts = 500;
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  std::thread thread([&] { engine.run(); });
  std::binary_semaphore done{0};
  for (int i = 0; i < kPosts; ++i) {
    BOOST_REQUIRE(engine.post([&] { done.release(); }));
    done.acquire();
  }
  engine.stop();
  thread.join();
}

BOOST_AUTO_TEST_CASE(an_engine_that_blocks_again_and_again_misses_no_notice) {
  struct Noted final : Poller {
    std::size_t work(Time) override {
      if (!noted.exchange(false)) return 0;
      done.release();
      return 1;
    }
    Time next_deadline() const override { return noted ? Time{} : Time::never(); }
    std::atomic<bool> noted = false;
    std::binary_semaphore done{0};
  };
  constexpr int kNotices = 500;
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  Noted poller;
  engine.add(poller);
  std::thread thread([&] { engine.run(); });
  for (int i = 0; i < kNotices; ++i) {
    poller.noted = true;
    engine.notify();
    poller.done.acquire();
  }
  engine.stop();
  thread.join();
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

BOOST_AUTO_TEST_CASE(a_turn_does_what_was_posted_before_it_and_leaves_later_work_to_the_next) {
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  std::size_t done = 0;
  const std::function<void()> post_another = [&] {
    BOOST_REQUIRE(engine.post([&] {
      ++done;
      post_another();
    }));
  };
  post_another();
  engine.poll(Time{});
  BOOST_TEST(done == 1U);
  engine.poll(Time{});
  BOOST_TEST(done == 2U);
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
  CountingPoller early, late;
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
  CountingPoller poller;
  poller.todo = 2;
  poller.deadline = Time{0};
  engine.add(poller);
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
  CountingPoller poller;
  poller.todo = 5;
  engine.add(poller);
  engine.poll(Time{});
  engine.remove(poller);
  engine.poll(Time{});
  BOOST_TEST(poller.todo == 4);
}

namespace {

struct PoorPoller final : Poller {
  std::size_t work(Time) override {
    ++worked;
    if (lacks_memory) throw std::bad_alloc();
    return 0;
  }
  void on_out_of_memory() override {
    ++told;
    if (told < 3) throw std::bad_alloc();
    lacks_memory = false;
  }
  bool lacks_memory = true;
  int worked = 0, told = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(an_agent_without_memory_is_told_again_until_it_has_heard_and_works_on_afterwards) {
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  PoorPoller poor;
  CountingPoller healthy;
  healthy.todo = 100;
  engine.add(poor);
  engine.add(healthy);
  for (int turn = 0; turn < 5; ++turn) BOOST_TEST(engine.poll(Time{turn}) > 0U);
  // It has worked once before on_out_of_memory() succeeded, and once after that.
  BOOST_TEST(poor.worked == 2);
  BOOST_TEST(poor.told == 3);
}

BOOST_AUTO_TEST_CASE(a_task_without_memory_is_told_to_every_agent_and_the_next_task_runs) {
  FakeWaiter waiter;
  Engine engine(waiter, kNoSpin);
  PoorPoller first, second;
  first.told = second.told = 2;
  engine.add(first);
  engine.add(second);
  bool has_run = false;
  BOOST_REQUIRE(engine.post([] { throw std::bad_alloc(); }));
  BOOST_REQUIRE(engine.post([&] { has_run = true; }));
  engine.poll(Time{1});
  BOOST_TEST(has_run);
  BOOST_TEST((first.told == 3 && second.told == 3));
  BOOST_TEST((first.worked == 0 && second.worked == 0));
}

namespace {

struct PoorWaiter final : Waiter {
  void wait(Time) override { throw std::bad_alloc(); }
  void wake() noexcept override {}
  Time prepare_wait(Time) override { throw std::bad_alloc(); }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_wait_without_memory_is_told_to_every_agent_and_the_engine_goes_on) {
  PoorWaiter waiter;
  Engine engine(waiter, kNoSpin);
  PoorPoller poller;
  poller.lacks_memory = false;
  poller.told = 2;
  engine.add(poller);
  engine.turn(seconds(1));
  BOOST_TEST(poller.told == 2);
  engine.turn(seconds(1));
  BOOST_TEST(poller.told == 3);
  engine.run_while_busy();
  BOOST_TEST(poller.told > 3);
}

BOOST_AUTO_TEST_SUITE_END()
