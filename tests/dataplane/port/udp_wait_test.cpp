#include <thread>
#include <tuple>

#include "tests/dataplane/port/udp_fixture.hpp"

BOOST_AUTO_TEST_SUITE(udp_wait_test)

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;

namespace {

struct WithIoUring {
  static constexpr Use io_uring = Use::automatic;
};
struct WithEpoll {
  static constexpr Use io_uring = Use::off;
};
using Kinds = std::tuple<WithIoUring, WithEpoll>;

template <typename Kind>
std::unique_ptr<Port> open_with(std::uint8_t host) {
  return open({.address = loopback(host), .io_uring = Kind::io_uring});
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(a_wait_lasts_until_its_deadline_and_not_much_longer, Kind, Kinds) {
  const auto port = open_with<Kind>(1);
  const Time start = monotonic_now();
  port->wait(start + milliseconds(20));
  const Duration took = monotonic_now() - start;
  BOOST_TEST(took.ns >= milliseconds(20).ns);
  BOOST_TEST(took.ns < seconds(5).ns);
  port->wait(start);  // The deadline is in the past, so this call returns at once.
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_wake_from_another_thread_ends_a_wait_without_a_deadline, Kind, Kinds) {
  const auto port = open_with<Kind>(1);
  for (int i = 0; i < 200; ++i) {
    std::thread waker([&] { port->wake(); });
    port->wait(Time::never());
    waker.join();
  }
  BOOST_TEST(port->counters().waits == 200);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_wake_before_the_wait_is_not_lost_and_ends_only_one, Kind, Kinds) {
  const auto port = open_with<Kind>(1);
  NoPlan no_plan;
  std::array<RxTrain, 4> trains;
  port->wake();
  port->wake();
  port->receive_burst(no_plan, trains);  // This call must not consume the wake-up.
  port->wait(Time::never());
  const Time start = monotonic_now();
  port->wait(start + milliseconds(5));
  BOOST_TEST((monotonic_now() - start).ns >= milliseconds(5).ns);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_datagram_on_any_flow_ends_the_wait, Kind, Kinds) {
  const auto receiver = open_with<Kind>(2);
  std::vector<FlowId> flows{kSharedFlow};
  NoPlan no_plan;
  std::array<RxTrain, 4> trains;
  for (int i = 0; i < 5; ++i) {
    flows.push_back(*receiver->open_flow());
    receiver->receive_burst(no_plan, trains);
  }
  for (const FlowId flow : flows) {
    std::thread sender([&] { send(*open(1), Bytes(10), 10, address_of(*receiver, flow)); });
    receiver->wait(Time::never());
    BOOST_TEST((receive_datagrams(*receiver, 1)[0].flow == flow));
    sender.join();
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_arrived_before_the_wait_is_not_waited_for, Kind, Kinds) {
  const auto sender = open_with<Kind>(1);
  const auto receiver = open_with<Kind>(2);
  for (int i = 0; i < 10; ++i) {
    send(*sender, Bytes(10), 10, receiver->info().address);
    receiver->wait(Time::never());
    BOOST_TEST(receive_datagrams(*receiver, 1).size() == 1);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(looking_at_a_quiet_port_again_and_again_costs_at_most_one_call_each, Kind,
                              Kinds) {
  const auto port = open_with<Kind>(1);
  NoPlan no_plan;
  std::array<RxTrain, 4> trains;
  for (int i = 0; i < 4; ++i) port->receive_burst(no_plan, trains);
  const auto before = port->counters().system_calls;
  for (int i = 0; i < 100; ++i) BOOST_TEST(port->receive_burst(no_plan, trains) == 0);
  BOOST_TEST(port->counters().system_calls - before <= 100);
}

BOOST_AUTO_TEST_SUITE_END()
