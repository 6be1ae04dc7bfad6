#include "apps/program/worker.hpp"

#include <boost/test/unit_test.hpp>
#include <future>
#include <numeric>
#include <vector>

BOOST_AUTO_TEST_SUITE(worker_test)

using namespace rdmc;

BOOST_AUTO_TEST_CASE(tasks_run_in_order_on_another_thread_and_all_before_the_end) {
  std::vector<int> seen;
  std::thread::id ran_on;
  {
    const auto worker = Worker::start();
    BOOST_REQUIRE(worker.has_value());
    for (int i = 0; i < 1000; ++i)
      (*worker)->post([&, i] {
        seen.push_back(i);
        ran_on = std::this_thread::get_id();
      });
  }
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  BOOST_TEST(seen == expected);
  BOOST_TEST((ran_on != std::this_thread::get_id()));
}

BOOST_AUTO_TEST_CASE(a_task_may_post_another) {
  std::promise<int> done;
  const auto worker = Worker::start();
  BOOST_REQUIRE(worker.has_value());
  (*worker)->post([&] { (*worker)->post([&] { done.set_value(7); }); });
  BOOST_TEST(done.get_future().get() == 7);
}

BOOST_AUTO_TEST_CASE(a_result_comes_back_to_the_loop_and_only_while_its_owner_lives) {
  struct Owner {
    std::promise<std::pair<int, bool>> answer;
  };
  const auto loop = control::ControlLoop::create();
  BOOST_REQUIRE(loop.has_value());
  const auto worker = Worker::start();
  BOOST_REQUIRE(worker.has_value());
  const auto alive = std::make_shared<Owner>();
  auto gone = std::make_shared<Owner>();
  const std::weak_ptr<Owner> weakly_gone = gone;
  gone.reset();
  bool called = false;
  run_for(
      weakly_gone, **worker, **loop, []() -> Result<int> { return 1; },
      [&](Owner&, const Result<int>&) { called = true; });
  run_for(
      std::weak_ptr(alive), **worker, **loop, []() -> Result<int> { return 2; },
      [&loop](Owner& owner, const Result<int>& result) {
        owner.answer.set_value({result.value(), (*loop)->on_loop_thread()});
      });
  const auto [result, on_loop] = alive->answer.get_future().get();
  BOOST_TEST(result == 2);
  BOOST_TEST(on_loop);
  BOOST_TEST(!called);
}

BOOST_AUTO_TEST_SUITE_END()
