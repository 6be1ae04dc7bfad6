#include "controlplane/peer/fabric_thread.hpp"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "controlplane/peer/context.hpp"
#include "dataplane/base/descriptor.hpp"

BOOST_AUTO_TEST_SUITE(fabric_thread_test)

using namespace rdmc;
using namespace rdmc::peer;

namespace {

const FabricThreadOptions kUdp{.fabric = "udp"};

/// Returns a thread with a port number that was free, and writes this number into `options`. If another
/// process gets the port first, tries another port number.
std::shared_ptr<FabricThread> with_own_port(Context& context, FabricThreadOptions& options) {
  options.address = Address::ipv4(127, 0, 0, 3, 0);
  for (;;) {
    {
      const Descriptor probe(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_addr.s_addr = htonl(0x7f000003);
      socklen_t length = sizeof at;
      BOOST_REQUIRE(::bind(probe.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
      BOOST_REQUIRE(::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&at), &length) == 0);
      options.address.port = ntohs(at.sin_port);
    }
    if (auto thread = context.fabric_thread(options)) return std::move(*thread);
  }
}

struct CountingPoller final : engine::Poller {
  std::size_t work(Time) override {
    if (lacks_memory) throw std::bad_alloc();
    return 0;
  }
  void on_out_of_memory() override {
    lacks_memory = false;
    told.set_value();
  }
  bool lacks_memory = false;
  std::promise<void> told;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_call_runs_on_the_thread_with_all_signals_blocked_and_brings_back_its_result) {
  const auto thread = FabricThread::open(kUdp).value();
  sigset_t blocked;
  const auto where = thread->call([&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return std::this_thread::get_id();
  });
  BOOST_TEST((where != std::this_thread::get_id()));
  BOOST_TEST(sigismember(&blocked, SIGTERM) == 1);
  BOOST_TEST(sigismember(&blocked, SIGUSR1) == 1);
  BOOST_TEST(!thread->is_current());
  BOOST_TEST(thread->call([&] { return thread->is_current() && thread->call([] { return 7; }) == 7; }));
}

BOOST_AUTO_TEST_CASE(a_call_that_finds_no_memory_is_answered_by_name_and_the_thread_goes_on) {
  const auto thread = FabricThread::open(kUdp).value();
  const auto answer = thread->call([]() -> Result<int> { throw std::bad_alloc(); });
  BOOST_REQUIRE(!answer);
  BOOST_TEST((answer.error().code == Errc::resource_limit));
  BOOST_CHECK_THROW(thread->call([]() -> int { throw std::bad_alloc(); }), std::bad_alloc);
  BOOST_TEST(thread->call([] { return 1; }) == 1);
}

BOOST_AUTO_TEST_CASE(an_agent_that_finds_no_memory_is_told_alone_and_a_task_that_finds_none_tells_all) {
  const auto thread = FabricThread::open(kUdp).value();
  CountingPoller first, second;
  thread->call([&] {
    thread->engine().add(first);
    thread->engine().add(second);
    first.lacks_memory = true;
  });
  first.told.get_future().get();
  BOOST_TEST((second.told.get_future().wait_for(std::chrono::seconds(0)) == std::future_status::timeout));

  CountingPoller third;
  thread->call([&] {
    thread->engine().remove(first);
    thread->engine().remove(second);
    thread->engine().add(third);
  });
  BOOST_REQUIRE(thread->post([] { throw std::bad_alloc(); }));
  third.told.get_future().get();
  thread->call([&] { thread->engine().remove(third); });
}

BOOST_AUTO_TEST_CASE(tasks_run_in_order_however_many_there_are) {
  const auto thread = FabricThread::open(kUdp).value();
  std::vector<std::size_t> order;
  constexpr std::size_t kTasks = 3 * engine::Engine::kQueueDepth;
  for (std::size_t i = 0; i < kTasks; ++i) thread->post_when_room([&order, i] { order.push_back(i); });
  thread->call([] {});
  BOOST_REQUIRE(order.size() == kTasks);
  BOOST_TEST(std::ranges::is_sorted(order));
}

BOOST_AUTO_TEST_CASE(an_application_drives_a_fabric_without_a_thread) {
  auto options = kUdp;
  options.own_thread = false;
  const auto thread = FabricThread::open(options).value();
  BOOST_TEST(thread->is_current());
  bool has_run = false;
  BOOST_REQUIRE(thread->post([&] { has_run = true; }));
  BOOST_TEST(!has_run);
  thread->turn(Duration{});
  BOOST_TEST(has_run);
}

BOOST_AUTO_TEST_CASE(who_asks_for_the_same_shares_a_thread_and_the_last_one_ends_it) {
  Context context;
  auto first = context.fabric_thread(kUdp).value();
  auto second = context.fabric_thread(kUdp).value();
  BOOST_TEST((first == second));
  BOOST_TEST(context.threads() == 1U);
  auto other = kUdp;
  other.address = Address::ipv4(127, 0, 0, 2, 0);
  const auto elsewhere = context.fabric_thread(other).value();
  BOOST_TEST((elsewhere != first));
  BOOST_TEST(context.threads() == 2U);
  first.reset();
  second.reset();
  BOOST_TEST(context.threads() == 1U);
  auto driven = kUdp;
  driven.own_thread = false;
  BOOST_TEST((context.fabric_thread(driven).error().code == Errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(a_thread_with_a_port_of_its_own_serves_all_who_ask_for_no_port) {
  Context context;
  auto with_port = kUdp;
  const auto first = with_own_port(context, with_port);
  auto without = with_port;
  without.address.port = 0;
  BOOST_TEST((context.fabric_thread(without).value() == first));
  context.set_most_threads(2);
  // Only the first thread can use this port, so the request gets this thread.
  BOOST_TEST((context.fabric_thread(with_port).value() == first));
  const auto second = context.fabric_thread(without).value();
  BOOST_TEST((second != first));
  BOOST_TEST(context.threads() == 2U);
  // A request for a port number must not get a thread that has another port number.
  Context other;
  const auto any = other.fabric_thread(without).value();
  auto elsewhere = with_port;
  BOOST_TEST((with_own_port(other, elsewhere) != any));
}

BOOST_AUTO_TEST_CASE(only_the_driving_thread_gives_turns_and_not_in_an_upcall) {
  auto options = kUdp;
  options.own_thread = false;
  const auto driven = FabricThread::open(options).value(), own = FabricThread::open(kUdp).value();
  const auto refuses = [](const auto& result) { return result.error().code == Errc::invalid_argument; };
  std::jthread([&] {
    BOOST_TEST(refuses(driven->turn({})));
    BOOST_TEST(refuses(driven->descriptor()));
    BOOST_TEST(!driven->is_in_turn());
  }).join();
  BOOST_TEST(refuses(own->turn({})));
  Result<void> in_task, in_call;
  BOOST_TEST(!driven->is_in_turn());
  BOOST_REQUIRE(driven->post([&] { in_task = driven->turn({}); }));
  BOOST_TEST(driven->turn({}).has_value());
  BOOST_TEST(refuses(in_task));
  driven->call([&] {
    BOOST_TEST(driven->is_in_turn());
    in_call = driven->turn({});
  });
  BOOST_TEST(refuses(in_call));
  BOOST_TEST(driven->turn({}).has_value());
}

BOOST_AUTO_TEST_CASE(a_context_of_several_threads_spreads_those_who_ask_over_them) {
  Context context({.threads = 2});
  const auto first = context.fabric_thread(kUdp).value(), second = context.fabric_thread(kUdp).value();
  BOOST_TEST((first != second));
  const auto third = context.fabric_thread(kUdp).value(), fourth = context.fabric_thread(kUdp).value();
  BOOST_TEST((third != fourth));
  BOOST_TEST(context.threads() == 2U);
}

BOOST_AUTO_TEST_CASE(a_context_that_is_given_more_threads_later_opens_them_for_those_who_ask_then) {
  Context context;
  const auto first = context.fabric_thread(kUdp).value(), second = context.fabric_thread(kUdp).value();
  BOOST_TEST((first == second));
  context.set_most_threads(2);
  const auto third = context.fabric_thread(kUdp).value();
  BOOST_TEST((third != first));
  context.set_most_threads(0);
  BOOST_TEST((context.fabric_thread(kUdp).value() != nullptr));
  BOOST_TEST(context.threads() == 2U);
}

BOOST_AUTO_TEST_CASE(a_process_has_one_context_and_a_forked_child_another) {
  const auto ours = Context::of_process();
  BOOST_TEST((Context::of_process() == ours));
  const auto thread = ours->fabric_thread(kUdp).value();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(Context::of_process() != ours && Context::of_process()->threads() == 0 ? 0 : 1);
  int status = -1;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_SUITE_END()
