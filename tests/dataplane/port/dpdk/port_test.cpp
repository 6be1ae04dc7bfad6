// Tests the port over a memif between two ports of this process. The test needs no privilege, no hugepages
// and no interface.
#include <rapidcheck.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "dataplane/base/bytes.hpp"
#include "dataplane/base/descriptor.hpp"
#include "tests/dataplane/port/dpdk/memif_pair.hpp"
#include "tests/dataplane/port/dpdk/other_user.hpp"
#include "tests/dataplane/port/udp_fixture.hpp"

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;
using rdmc::port::dpdk::testing::open_memif;

namespace {

/// DPDK can start only once in a process, so all tests share one pair. Each test must leave no datagrams in
/// it.
struct Pair {
  std::unique_ptr<Port> a = open_memif("server", "net_memif0", "192.0.2.1/24");
  std::unique_ptr<Port> b = open_memif("client", "net_memif1", "192.0.2.2/24");
};

Pair& ports() {
  static Pair pair;
  return pair;
}

void send_all(Port& port, std::span<const TxTrain> trains) {
  const Time deadline = monotonic_now() + kPatience;
  while (!trains.empty()) {
    trains = trains.subspan(port.send_burst(trains));
    BOOST_REQUIRE(monotonic_now() < deadline);
  }
}

/// Sends the numbers below `window` to a neighbour whose address the sender does not know yet, as fast as the
/// port accepts them. Checks that they arrive in order. Returns false if the answer took longer than the port
/// waits for its first request. This can happen on a busy machine. The port has then dropped the datagrams
/// for which it had no space.
bool a_window_arrives_in_order(std::uint32_t window, Time deadline) {
  const Pair pair{open_memif("server", "net_memif2", "192.0.2.3/24", "1"),
                  open_memif("client", "net_memif3", "192.0.2.4/24", "1")};
  auto& [a, b] = pair;
  // The port's announcement failed, because no peer was connected at that time.
  const std::uint64_t failed = a->counters().send_failed;
  NoPlan no_plan;
  std::array<RxTrain, 16> trains;
  std::vector<Datagram> got;
  Sendable sendable(Bytes(64), 64, b->info().address);
  for (std::uint32_t next = 0; got.size() < window;) {
    for (; next < window; ++next) {
      store_be(sendable.bytes.data(), next);
      if (a->send_burst(std::span(&sendable.train, 1)) == 0) break;
    }
    a->receive_burst(no_plan, trains);
    const std::size_t count = b->receive_burst(no_plan, trains);
    for (const RxTrain& train : std::span(trains).first(count)) cut(train, got);
    if (a->counters().send_failed > failed) return false;
    BOOST_REQUIRE(monotonic_now() < deadline);
  }
  for (std::uint32_t i = 0; i < window; ++i) BOOST_REQUIRE(load_be<std::uint32_t>(got[i].bytes.data()) == i);
  return true;
}

Driver& dpdk_of(const Registry& registry) {
  return **std::ranges::find(registry.drivers(), "dpdk", [](const auto& one) { return one->name(); });
}

struct ClosePorts {
  ~ClosePorts() {
    ports().a.reset();
    ports().b.reset();
  }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(ClosePorts);

BOOST_AUTO_TEST_CASE(the_first_datagram_arrives_although_nobody_knew_its_neighbour) {
  auto& [a, b] = ports();
  BOOST_TEST(a->info().driver == "dpdk");
  BOOST_TEST(a->info().mtu == 4200u);
  BOOST_TEST(to_string(a->info().address) == "192.0.2.1:4791");
  const Bytes sent = random_bytes(100, 1);
  const Sendable sendable(sent, 100, b->info().address);
  send_all(*a, std::span(&sendable.train, 1));
  // The sender must also poll, because it must receive the answer with the address of the neighbour.
  std::vector<Datagram> got;
  const Time deadline = monotonic_now() + kPatience;
  NoPlan no_plan;
  std::array<RxTrain, 16> trains;
  while (got.empty()) {
    BOOST_TEST(a->receive_burst(no_plan, trains) == 0u);
    const std::size_t count = b->receive_burst(no_plan, trains);
    for (const RxTrain& train : std::span(trains).first(count)) {
      BOOST_TEST((train.identification == 0));
      cut(train, got);
    }
    BOOST_REQUIRE(monotonic_now() < deadline);
  }
  BOOST_TEST((got[0].bytes == sent));
  BOOST_TEST((got[0].source == a->info().address));
  BOOST_TEST((got[0].flow == kSharedFlow));
}

// A queue pair sends the first window before it needs an answer. The second window is larger than the port's
// queue, so the port refuses the rest.
BOOST_AUTO_TEST_CASE(a_whole_window_arrives_in_order_although_nobody_knew_its_neighbour) {
  for (const std::uint32_t window : {1024, 5000}) {
    const Time deadline = monotonic_now() + kPatience;
    while (!a_window_arrives_in_order(window, deadline)) BOOST_REQUIRE(monotonic_now() < deadline);
  }
}

BOOST_AUTO_TEST_CASE(trains_of_any_shape_arrive_in_order_in_the_flow_that_they_were_sent_to) {
  auto& [a, b] = ports();
  const FlowId from = *a->open_flow(), to = *b->open_flow();
  BOOST_TEST(rc::check([&] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    const auto below = [&](std::uint64_t bound) { return static_cast<std::uint32_t>(random.next() % bound); };
    const std::uint32_t segment = 1 + below(4172), total = 1 + below(40'000);
    const std::size_t segments = (total + segment - 1) / segment;
    RC_PRE(segments <= 512);  // This is the capacity of the ring.
    const Bytes sent = random_bytes(total, segment);
    // The pieces have random sizes, so they do not end where the segments end. Some pieces are empty.
    std::vector<iovec> pieces;
    for (std::size_t at = 0; at < total;) {
      const std::size_t bytes = below(3) * below(5000);
      pieces.push_back({const_cast<std::byte*>(sent.data()) + at, std::min<std::size_t>(bytes, total - at)});
      at += pieces.back().iov_len;
    }
    TxTrain train{
        .destination = address_of(*b, to), .source = from, .pieces = pieces, .segment_bytes = segment};
    train.total_bytes = total;
    RC_ASSERT(a->send_burst(std::span(&train, 1)) == 1u);
    const auto got = receive_datagrams(*b, segments);
    Bytes together;
    for (const Datagram& datagram : got) {
      RC_ASSERT(datagram.flow == to);
      RC_ASSERT(datagram.source == address_of(*a, from));
      together.insert(together.end(), datagram.bytes.begin(), datagram.bytes.end());
    }
    RC_ASSERT(got.size() == segments);
    RC_ASSERT(together == sent);
  }));
  a->close_flow(from);
  b->close_flow(to);
}

BOOST_AUTO_TEST_CASE(the_callers_memory_is_free_again_when_sending_returns) {
  auto& [a, b] = ports();
  Bytes memory = random_bytes(4000, 7);
  const Bytes before = memory;
  const Sendable sendable(memory, 4000, b->info().address);
  Bytes& sent = const_cast<Bytes&>(sendable.bytes);
  send_all(*a, std::span(&sendable.train, 1));
  std::ranges::fill(sent, std::byte{0});
  BOOST_TEST((receive_datagrams(*b, 1)[0].bytes == before));
}

BOOST_AUTO_TEST_CASE(a_full_ring_refuses_and_loses_nothing_that_it_took) {
  auto& [a, b] = ports();
  const Bytes bytes(64);
  const Sendable sendable(bytes, 64, b->info().address);
  std::size_t taken = 0;
  for (std::size_t refusals = 0; refusals < 3;) {
    const std::size_t now = a->send_burst(std::span(&sendable.train, 1));
    taken += now;
    refusals += now == 0 ? 1 : 0;
    BOOST_REQUIRE(taken < 100'000u);
  }
  BOOST_TEST(a->counters().send_refused >= 3u);
  BOOST_TEST(receive_datagrams(*b, taken).size() == taken);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_sent_is_dropped_and_counted_and_the_rest_of_the_burst_leaves) {
  auto& [a, b] = ports();
  const std::uint64_t failed = a->counters().send_failed;
  const Sendable good(Bytes(100), 100, b->info().address);
  const Sendable huge(Bytes(4200), 4200, b->info().address);
  // There is no gateway for this address.
  const Sendable elsewhere(Bytes(100), 100, Address::ipv4(198, 51, 100, 1, 4791));
  const std::array trains{good.train, huge.train, elsewhere.train, good.train};
  send_all(*a, trains);
  BOOST_TEST(receive_datagrams(*b, 2).size() == 2u);
  BOOST_TEST(a->counters().send_failed > failed);
}

BOOST_AUTO_TEST_CASE(a_closed_flow_hears_nothing_and_its_number_is_given_out_again) {
  auto& [a, b] = ports();
  const FlowId closed = *b->open_flow();
  const Address address = address_of(*b, closed);
  b->close_flow(closed);
  const Sendable lost(Bytes(50), 50, address);
  const Sendable heard(Bytes(60), 60, b->info().address);
  send_all(*a, std::array{lost.train, heard.train});
  BOOST_TEST(receive_datagrams(*b, 1)[0].bytes.size() == 60u);
  const FlowId again = *b->open_flow();
  BOOST_TEST((again == closed));
  BOOST_TEST(b->udp_port(again) != address.port);
  b->close_flow(again);
}

BOOST_AUTO_TEST_CASE(a_wait_ends_with_a_packet_a_deadline_or_a_wake) {
  auto& [a, b] = ports();
  const Time start = monotonic_now();
  b->wait(start + milliseconds(20));
  BOOST_TEST((monotonic_now() - start).ns >= milliseconds(20).ns);
  for (int i = 0; i < 50; ++i) {
    std::thread waker([&] { b->wake(); });
    b->wait(Time::never());
    waker.join();
  }
  const Sendable sendable(Bytes(30), 30, b->info().address);
  send_all(*a, std::span(&sendable.train, 1));
  b->wait(Time::never());
  BOOST_TEST(receive_datagrams(*b, 1).size() == 1u);
}

// DPDK unmaps the rings on its own thread. This must not affect a thread that is in a burst.
BOOST_AUTO_TEST_CASE(the_other_end_of_a_memif_may_go_in_the_middle_of_traffic_and_come_back) {
  // Opens the common pair first, because all memifs of this process share one socket, which DPDK does not
  // release.
  ports();
  const auto server = open_memif("server", "net_memif8", "192.0.2.8/24", "8");
  const Bytes sent = random_bytes(2000, 8);
  const Sendable sendable(sent, 2000, Address::ipv4(192, 0, 2, 9, 4791));
  std::atomic<bool> stop = false;
  std::jthread busy([&] {
    NoPlan no_plan;
    std::array<RxTrain, 16> trains;
    while (!stop) {
      server->send_burst(std::span(&sendable.train, 1));
      server->receive_burst(no_plan, trains);
    }
  });
  NoPlan no_plan;
  std::array<RxTrain, 16> trains;
  for (int round = 0; round < 20; ++round) {
    const auto client = open_memif("client", "net_memif9", "192.0.2.9/24", "8");
    const Time deadline = monotonic_now() + kPatience;
    while (client->receive_burst(no_plan, trains) == 0) BOOST_REQUIRE(monotonic_now() < deadline);
  }
  stop = true;
}

BOOST_AUTO_TEST_CASE(who_lacks_the_secret_of_a_memif_gets_nothing_through) {
  ports();
  const auto server = open_memif("server", "net_memif4", "192.0.2.5/24", "4", ",secret=1234567890123");
  const auto other_user = open_memif("client", "net_memif5", "192.0.2.6/24", "4", ",secret=1234567890124");
  BOOST_TEST(other_user->info().notes.back().find("link is down") != std::string::npos);
  const Sendable sendable(Bytes(30), 30, server->info().address);
  NoPlan no_plan;
  std::array<RxTrain, 4> trains;
  for (const Time end = monotonic_now() + milliseconds(50); monotonic_now() < end;) {
    other_user->send_burst(std::span(&sendable.train, 1));
    BOOST_REQUIRE(server->receive_burst(no_plan, trains) == 0u);
  }
  BOOST_TEST(server->counters().datagrams_received == 0u);
}

BOOST_AUTO_TEST_CASE(every_pair_on_this_host_has_a_name_and_a_secret_of_its_own) {
  const auto registry = standard_drivers();
  const auto words = [](const std::string& device, std::string_view key) {
    const std::size_t at = device.find(key);
    BOOST_REQUIRE(at != std::string::npos);
    return device.substr(at, device.find(',', at) - at);
  };
  const auto one = dpdk_of(registry).pair_on_this_host(), other = dpdk_of(registry).pair_on_this_host();
  for (const std::string_view key : {"socket=/", "secret="}) {
    BOOST_TEST(words(one[0].device, key) == words(one[1].device, key));
    BOOST_TEST(words(one[0].device, key) != words(other[0].device, key));
  }
}

// Normally the probe has already reported this error. The exception is a server that started between the
// probe and open().
BOOST_AUTO_TEST_CASE(a_memif_client_that_may_not_open_the_socket_says_so_at_once) {
  ports();
  const auto registry = standard_drivers();
  std::string socket = std::filesystem::temp_directory_path() / "rdmc_port_test-XXXXXX";
  const Descriptor file(mkstemp(socket.data()));
  BOOST_REQUIRE(fchmod(file.get(), 0) == 0);
  const Time start = monotonic_now();
  const auto opened = [&] {
    const dpdk::testing::OtherUser other_user;
    return dpdk_of(registry).open(
        {.address = Address::ipv4(192, 0, 2, 9, 0),
         .device = "vdev=net_memif10,role=client,socket-abstract=no,socket=" + socket + " huge=no"});
  }();
  std::filesystem::remove(socket);
  BOOST_REQUIRE(!opened);
  BOOST_TEST((opened.error().code == Errc::permission_denied), opened.error().what);
  // This text comes from DPDK.
  BOOST_TEST(opened.error().what.find("onnect") != std::string::npos, opened.error().what);
  BOOST_TEST((monotonic_now() - start).ns < seconds(2).ns);
}

BOOST_AUTO_TEST_CASE(a_device_that_is_in_use_or_unknown_is_refused_by_name) {
  ports();
  const auto error_of = [](const std::string& device) {
    const auto opened =
        standard_drivers().open("dpdk", {.address = Address::ipv4(192, 0, 2, 9, 0), .device = device});
    BOOST_REQUIRE(!opened.has_value());
    return opened.error();
  };
  const Error in_use = error_of("vdev=net_memif0 huge=no");
  BOOST_TEST((in_use.code == Errc::already_exists));
  BOOST_TEST(in_use.what.find("net_memif0") != std::string::npos);
  const Error unknown = error_of("vdev=net_pigeon0 huge=no");
  BOOST_TEST(unknown.what.find("net_pigeon0") != std::string::npos, unknown.what);
  BOOST_TEST((error_of("vdev=net_null0 huge=no mtu=60000000").code != Errc::io_error));
}
