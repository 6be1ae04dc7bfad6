// Tests the port on a device with features that no device of the test machines has: it wakes a sleeping
// thread, and its link can be lost.
#include <algorithm>
#include <set>
#include <thread>

#include "dataplane/port/source_ports.hpp"
#include "tests/dataplane/port/dpdk/fake_device.hpp"
#include "tests/dataplane/port/dpdk/memif_pair.hpp"
#include "tests/dataplane/port/udp_fixture.hpp"

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;
using namespace rdmc::port::dpdk::testing;

namespace {

/// Opens a device that never receives anything.
std::unique_ptr<Port> open_null(const std::string& address) {
  return open_port("vdev=net_null0,no-rx=1 mtu=1500 huge=no address=" + address);
}

bool says(const Port& port, std::string_view what) {
  return std::ranges::any_of(port.info().notes,
                             [&](const auto& note) { return note.find(what) != std::string::npos; });
}

/// Two ports that all tests share, because DPDK releases the socket of a memif only when the process ends.
/// Each port knows the MAC address of the other port.
struct Pair {
  std::unique_ptr<Port> a, b;
  Sendable greeting{Bytes(40), 40, b->info().address};

  Pair(std::unique_ptr<Port> server, std::unique_ptr<Port> client)
      : a(std::move(server)), b(std::move(client)) {
    exchange();
  }
  void exchange() {
    NoPlan no_plan;
    std::array<RxTrain, 4> trains;
    const Time deadline = monotonic_now() + kPatience;
    test::send(*a, greeting.train);
    while (b->receive_burst(no_plan, trains) == 0) {
      a->receive_burst(no_plan, trains);
      BOOST_REQUIRE(monotonic_now() < deadline);
    }
  }
};

std::unique_ptr<Pair>& the_pair() {
  static std::unique_ptr<Pair> pair;
  return pair;
}
Pair& pair_of_ports() {
  if (!the_pair()) {
    auto server = open_memif("server", "net_memif0", "192.0.2.1/24");
    the_pair() =
        std::make_unique<Pair>(std::move(server), open_memif("client", "net_memif1", "192.0.2.2/24"));
  }
  return *the_pair();
}
struct ClosePair {
  ~ClosePair() { the_pair().reset(); }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(ClosePair);

// The first port number of each port is one of 16,384 numbers at random. So four ports practically never have
// the same one.
BOOST_AUTO_TEST_CASE(no_two_ports_begin_with_the_same_udp_ports) {
  std::set<std::uint16_t> first;
  for (int i = 0; i < 4; ++i) {
    const auto port = open_null("192.0.2.1/24");
    const std::uint16_t one = port->udp_port(*port->open_flow()), two = port->udp_port(*port->open_flow());
    BOOST_TEST(std::min(one, two) >= SourcePorts::kFirst);
    BOOST_TEST(one != two);
    first.insert(one);
  }
  BOOST_TEST(first.size() > 1u);
  SourcePorts ports(12345);
  std::set<std::uint16_t> all;
  for (std::uint32_t i = 0; i < SourcePorts::kCount; ++i) all.insert(ports.next());
  BOOST_TEST(all.size() == SourcePorts::kCount);
}

// An interrupt that is not consumed would end every further sleep at once. An idle port would then use a
// whole core.
BOOST_AUTO_TEST_CASE(an_interrupt_wakes_the_sleeper_once) {
  const Pair& pair = pair_of_ports();
  BOOST_TEST(!says(*pair.a, "wake a sleeper"));
  BOOST_TEST(fake().interrupts.size() >= 2u);  // There is one interrupt for each port.
  for (int i = 0; i < 3; ++i) {
    fake().raise();
    const std::uint64_t calls = pair.a->counters().system_calls;
    const Time start = monotonic_now();
    pair.a->wait(start + milliseconds(30));
    BOOST_TEST((monotonic_now() - start).ns >= milliseconds(30).ns);
    BOOST_TEST(pair.a->counters().system_calls - calls <= 4u);
  }
  BOOST_TEST(fake().enabled == fake().disabled);
  BOOST_TEST(fake().enabled >= 3u);
}

// Without interrupts, the port sleeps for short times.
BOOST_AUTO_TEST_CASE(a_port_whose_interrupt_cannot_be_armed_waits_without_it) {
  const auto port = open_null("192.0.2.1/24");
  BOOST_TEST(!says(*port, "wake a sleeper"));
  const std::uint32_t enabled = fake().enabled;
  const Time until = monotonic_now() + milliseconds(2);
  fake().refuses_to_arm = true;
  port->wait(until);
  fake().refuses_to_arm = false;
  BOOST_TEST((monotonic_now() >= until));
  BOOST_TEST(fake().enabled == enabled);
  BOOST_TEST(fake().enabled == fake().disabled);
}

BOOST_AUTO_TEST_CASE(what_arrives_under_an_interrupt_ends_the_sleep) {
  Pair& pair = pair_of_ports();
  NoPlan no_plan;
  std::array<RxTrain, 4> trains;
  std::jthread sender([&] {
    // After this, the receiver sleeps or is about to sleep.
    while (fake().enabled == fake().disabled) std::this_thread::yield();
    test::send(*pair.a, pair.greeting.train);
    fake().raise();
  });
  pair.b->wait(Time::never());
  BOOST_TEST(pair.b->receive_burst(no_plan, trains) == 1u);
}

namespace {

/// Counts the bytes of the frames that a device was given. Attached bytes are in the caller's memory. The
/// other bytes were copied.
struct Handed {
  std::span<const std::byte> callers;
  std::size_t attached = 0, copied = 0;
  std::byte traffic_class{};  ///< The traffic class of the last frame.
};

std::uint16_t look_at_frames(std::uint16_t, std::uint16_t, rte_mbuf** frames, std::uint16_t count,
                             void* into) {
  auto& handed = *static_cast<Handed*>(into);
  for (rte_mbuf* const first : std::span(frames, count)) {
    handed.traffic_class = *rte_pktmbuf_mtod_offset(first, const std::byte*, 15);
    for (const rte_mbuf* part = first; part != nullptr; part = part->next) {
      const auto* const at = rte_pktmbuf_mtod(part, const std::byte*);
      const bool within = at >= handed.callers.data() && at < handed.callers.data() + handed.callers.size();
      BOOST_TEST(within == static_cast<bool>(RTE_MBUF_HAS_EXTBUF(part)));
      (within ? handed.attached : handed.copied) += part->data_len;
    }
  }
  return count;
}

Handed hand_over(Port& port, const std::string& device, std::size_t bytes, const Address& to) {
  const Sendable sendable(Bytes(bytes), static_cast<std::uint32_t>(bytes), to);
  Handed handed{.callers = std::as_bytes(std::span(sendable.bytes))};
  std::uint16_t id = 0;
  BOOST_REQUIRE(rte_eth_dev_get_port_by_name(device.c_str(), &id) == 0);
  const auto* const hook = rte_eth_add_tx_callback(id, 0, look_at_frames, &handed);
  BOOST_REQUIRE(hook != nullptr);
  test::send(port, sendable.train);
  rte_eth_remove_tx_callback(id, 0, hook);
  return handed;
}

}  // namespace

BOOST_AUTO_TEST_CASE(
    payload_is_attached_to_its_frame_where_the_device_reads_it_at_once_and_copied_elsewhere) {
  constexpr std::size_t kBytes = 3000, kHeaders = 14 + 20 + 8;
  Pair& pair = pair_of_ports();
  const Handed large = hand_over(*pair.a, "net_memif0", kBytes, pair.b->info().address);
  BOOST_TEST(large.attached == kBytes);
  BOOST_TEST(large.copied == kHeaders);
  const Handed small = hand_over(*pair.a, "net_memif0", 64, pair.b->info().address);
  BOOST_TEST(small.attached == 0u);  // Attaching a buffer costs more than this copy.
  BOOST_TEST((small.traffic_class == std::byte{0}));
  // A client with zero-copy lends its buffers to the other end. The other end reads them only after the
  // client's transmit function has returned. So the payload must be copied.
  Pair lending{open_memif("server", "net_memif2", "192.0.2.3/24", "1"),
               open_memif("client", "net_memif3", "192.0.2.4/24", "1", ",zero-copy=yes", 46)};
  const Handed lent = hand_over(*lending.b, "net_memif3", kBytes, lending.a->info().address);
  BOOST_TEST(lent.attached == 0u);
  BOOST_TEST(lent.copied == kBytes + kHeaders);
  // The traffic class contains the DSCP with which the port was opened.
  BOOST_TEST((lent.traffic_class == std::byte{46 << 2}));
}

BOOST_AUTO_TEST_CASE(what_is_sent_while_the_link_is_lost_is_dropped_and_what_is_sent_after_arrives) {
  Pair& pair = pair_of_ports();
  Port& a = *pair.a;
  const auto look = [&] { a.wait(monotonic_now() + milliseconds(60)); };
  look();
  BOOST_TEST(a.counters().link_losses == 0u);
  fake().link_up = false;
  look();
  BOOST_TEST(a.counters().link_losses == 1u);
  BOOST_TEST(a.counters().link_returns == 0u);
  const auto before = a.counters();
  for (int i = 0; i < 2000; ++i) test::send(a, pair.greeting.train);  // No ring holds this many datagrams.
  BOOST_TEST(a.counters().send_failed == before.send_failed + 2000);
  BOOST_TEST(a.counters().datagrams_sent == before.datagrams_sent);
  fake().link_up.reset();
  look();
  BOOST_TEST(a.counters().link_losses == 1u);
  BOOST_TEST(a.counters().link_returns == 1u);
  pair.exchange();
}
