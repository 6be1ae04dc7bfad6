#include "dataplane/fabric/management_queue_pair.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/dataplane/fabric/cable.hpp"

BOOST_AUTO_TEST_SUITE(management_queue_pair_test)

using namespace rdmc;
using namespace rdmc::fabric;

namespace {

struct Host : testing::CableHost {
  using CableHost::CableHost;
  ManagementQueuePair management{fabric};
};

struct Cable : testing::HostPair<Host> {
  /// Makes `a` send a datagram. Returns the datagram's bytes.
  std::vector<std::byte> sent_by_a(std::byte fill) {
    ManagementDatagram datagram{.peer = b.port.info().address, .mad = {}};
    datagram.mad.fill(fill);
    a.management.send(datagram);
    return a.port.sent.back();
  }
  /// Returns how many datagrams `b` has for its connection manager. Discards these datagrams.
  std::size_t polled_by_b() {
    b.fabric.progress(now);
    std::size_t count = 0;
    for (ManagementDatagram out; b.management.poll(out);) ++count;
    return count;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_management_datagram_arrives_as_it_was_sent_and_says_from_whom) {
  Cable cable;
  cable.sent_by_a(std::byte{0x5A});
  cable.b.fabric.progress(cable.now);
  ManagementDatagram received;
  BOOST_REQUIRE(cable.b.management.poll(received));
  BOOST_TEST((received.peer.bytes == cable.a.port.info().address.bytes));
  BOOST_TEST(std::ranges::count(received.mad, std::byte{0x5A}) == 256);
  BOOST_TEST(!cable.b.management.poll(received));
}

// Checks the opcode, version, partition, queue pair, key, length, payload and checksum.
BOOST_AUTO_TEST_CASE(whatever_is_no_management_datagram_is_dropped_and_counted) {
  Cable cable;
  const auto good = cable.sent_by_a(std::byte{1});
  BOOST_TEST(cable.polled_by_b() == 1u);
  const Address source = cable.a.port.info().address;
  for (const std::size_t at : {1u, 2u, 7u, 12u, 30u, 279u}) {
    auto bad = good;
    bad[at] ^= std::byte{0x20};
    cable.b.port.deliver(source, std::move(bad));
  }
  auto shorter = good;
  shorter.pop_back();
  cable.b.port.deliver(source, std::move(shorter));
  cable.b.port.deliver(source, {good.begin(), good.begin() + 8});
  // The ICRC of the datagram was computed for another source address.
  const Address other = Address::ipv4(10, 0, 0, 7, 4791);
  cable.b.port.deliver(other, good);
  BOOST_TEST(cable.polled_by_b() == 0u);
  const auto& counters = cable.b.fabric.counters();
  std::uint64_t dropped = counters.icrc_errors;
  for (const std::uint64_t parse_errors : counters.parse_errors) dropped += parse_errors;
  BOOST_TEST(dropped == 9u);
}

BOOST_AUTO_TEST_CASE(datagrams_without_end_fill_no_memory) {
  Cable cable;
  for (std::size_t i = 0; i < ManagementQueuePair::kMostWaiting + 100; ++i) cable.sent_by_a(std::byte{2});
  for (int i = 0; i < 100; ++i) cable.b.fabric.progress(cable.now);
  BOOST_TEST(cable.polled_by_b() == ManagementQueuePair::kMostWaiting);
  BOOST_TEST(cable.b.fabric.counters().management_overflow == 100u);
}

BOOST_AUTO_TEST_SUITE_END()
