#include "controlplane/connect/control_loop.hpp"

#include <sys/resource.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <latch>
#include <new>
#include <thread>
#include <vector>

namespace rdmc::control {
BOOST_AUTO_TEST_SUITE(control_loop_test)
namespace {

std::unique_ptr<ControlLoop> new_loop() {
  return ControlLoop::create().value();
}

}  // namespace

BOOST_AUTO_TEST_CASE(tasks_run_in_the_order_of_posting_on_a_thread_of_their_own) {
  const auto loop = new_loop();
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) BOOST_TEST(loop->post([&order, i] { order.push_back(i); }));
  BOOST_TEST(loop->call([&] { return loop->on_loop_thread(); }));
  BOOST_TEST(!loop->on_loop_thread());
  BOOST_TEST_REQUIRE(order.size() == 100u);
  for (int i = 0; i < 100; ++i) BOOST_TEST(order[static_cast<std::size_t>(i)] == i);
}

BOOST_AUTO_TEST_CASE(call_runs_directly_when_already_on_the_loop) {
  const auto loop = new_loop();
  BOOST_TEST(loop->call([&] { return loop->call([] { return 42; }); }) == 42);
}

BOOST_AUTO_TEST_CASE(many_threads_post_and_nothing_is_lost_up_to_the_stop) {
  auto loop = new_loop();
  std::atomic<int> accepted = 0;
  int ran = 0;  // Only the loop's thread changes this number.
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 5000; ++i)
          if (loop->post([&ran] { ++ran; })) ++accepted;
      });
    loop->stop();
  }
  loop.reset();
  BOOST_TEST(ran == accepted);
}

BOOST_AUTO_TEST_CASE(a_task_without_memory_is_given_up_and_others_run) {
  const auto loop = new_loop();
  BOOST_TEST(loop->post([] { throw std::bad_alloc(); }));
  BOOST_TEST(loop->call([] { return 42; }) == 42);
  BOOST_CHECK_THROW(loop->call([]() -> int { throw std::bad_alloc(); }), std::bad_alloc);
  BOOST_CHECK_THROW(loop->call([] { throw std::bad_alloc(); }), std::bad_alloc);
  BOOST_TEST(loop->call([] { return 43; }) == 43);
}

BOOST_AUTO_TEST_CASE(after_the_stop_nothing_is_accepted_and_the_task_is_dropped) {
  const auto loop = new_loop();
  loop->stop();
  auto token = std::make_shared<int>(0);
  BOOST_TEST(!loop->post([token] { ++*token; }));
  BOOST_TEST(token.use_count() == 1);
  // call() still works, but runs the function on the calling thread.
  BOOST_TEST(loop->call([] { return 7; }) == 7);
}

BOOST_AUTO_TEST_CASE(timers_run_in_the_order_of_their_times_and_not_early) {
  const auto loop = new_loop();
  std::latch done(3);
  std::vector<int> order;
  const auto begin = std::chrono::steady_clock::now();
  const auto late = loop->after(milliseconds(60), [&] { order.push_back(3), done.count_down(); });
  const auto middle = loop->after(milliseconds(30), [&] { order.push_back(2), done.count_down(); });
  const auto early = loop->after(milliseconds(0), [&] { order.push_back(1), done.count_down(); });
  done.wait();
  BOOST_TEST((order == std::vector{1, 2, 3}));
  BOOST_TEST((std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(60)));
}

BOOST_AUTO_TEST_CASE(a_destroyed_timer_never_runs_and_gives_back_what_it_held) {
  const auto loop = new_loop();
  auto token = std::make_shared<int>(0);
  std::latch later(1);
  {
    const auto timer = loop->after(milliseconds(20), [token] { ++*token; });
  }
  const auto after_it = loop->after(milliseconds(40), [&] { later.count_down(); });
  later.wait();
  BOOST_TEST(*token == 0);
  BOOST_TEST(token.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(a_timer_may_be_destroyed_in_its_own_handler_and_outlive_the_loop) {
  Timer outlives;
  {
    const auto loop = new_loop();
    std::latch done(1);
    std::optional<Timer> own;
    loop->call([&] {
      own.emplace(loop->after(milliseconds(1), [&] {
        own.reset();
        done.count_down();
      }));
    });
    done.wait();
    outlives = loop->after(seconds(3600), [] { BOOST_TEST(false); });
  }
}

BOOST_AUTO_TEST_CASE(stopping_does_not_wait_for_timers) {
  auto loop = new_loop();
  auto token = std::make_shared<int>(0);
  const auto timer = loop->after(seconds(3600), [token] { ++*token; });
  loop.reset();
  BOOST_TEST(token.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(an_idle_loop_uses_no_processor_time) {
  const auto loop = new_loop();
  const auto used = [] {
    rusage usage;
    ::getrusage(RUSAGE_THREAD, &usage);
    return std::pair(usage.ru_nvcsw, usage.ru_utime.tv_sec * 1'000'000 + usage.ru_utime.tv_usec);
  };
  std::latch done(1);
  const auto before = loop->call(used);
  auto after = before;
  const auto timer = loop->after(milliseconds(300), [&] {
    after = used();
    done.count_down();
  });
  done.wait();
  BOOST_TEST(after.first - before.first < 10);      // counts how often the thread went to sleep
  BOOST_TEST(after.second - before.second < 3000);  // is the processor time: at most 1 % of 300 ms
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control
