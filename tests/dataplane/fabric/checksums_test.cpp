// Tests how a fabric checks the ICRCs of foreign endpoints, and when packets between two rdmc endpoints have
// no ICRC.
#include <boost/test/unit_test.hpp>

#include "dataplane/fabric/connection_blob.hpp"
#include "dataplane/roce/icrc.hpp"
#include "tests/dataplane/fabric/cable.hpp"

BOOST_AUTO_TEST_SUITE(checksums_test)

using namespace rdmc;
using namespace rdmc::fabric;
using testing::Cable;

namespace {

/// Returns a SEND of four bytes with a valid ICRC, from a foreign endpoint that chooses this IPv4
/// identification.
std::vector<std::byte> foreign_send(const Address& source, const ConnectionInfo& to, Psn psn,
                                    std::uint16_t identification) {
  std::vector<std::byte> bytes(roce::kBthBytes + 4 + roce::kIcrcBytes, std::byte{0x7B});
  roce::write_bth(bytes.data(), {.opcode = roce::Opcode::send_only, .destination = to.qpn, .psn = psn});
  const std::span covered(bytes.data(), bytes.size() - roce::kIcrcBytes);
  const std::uint32_t icrc = roce::Icrc(source, to.shared)
                                 .compute(identification, bytes.size(), covered.first(roce::kBthBytes),
                                          covered.subspan(roce::kBthBytes), 0);
  roce::store_icrc(&bytes[covered.size()], icrc);
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_foreign_end_may_use_any_udp_port_and_identification_but_no_wrong_checksum_or_address) {
  Cable cable;
  auto queue_pair = *cable.b.fabric.create_queue_pair({.selective_repeat = false, .path_mtu = 1024});
  const ConnectionInfo ours = *decode_connection(queue_pair->local_blob());
  const Address peer = Address::ipv4(10, 0, 0, 1, 4791);
  std::vector<std::byte> receive(16);
  for (int i = 0; i < 8; ++i) BOOST_REQUIRE(queue_pair->post_receive({.work_id = 0, .bytes = receive}));
  BOOST_REQUIRE(queue_pair->connect(encode({.shared = peer,
                                            .bulk_port = 4791,
                                            .qpn = Qpn{17},
                                            .first_psn = Psn(100),
                                            .path_mtu = 1024,
                                            .receive_window = 1 << 20,
                                            .foreign = true})));
  std::array<Completion, 8> done;
  Psn psn(100);
  for (const auto& [udp_port, identification] :
       {std::pair<int, int>{49'152, 0}, {49'152, 0x718C}, {49'152, 0x718D}, {0, 0xFFFF}, {65'535, 1}}) {
    Address source = peer;
    source.port = static_cast<std::uint16_t>(udp_port);
    cable.b.port.deliver(source, foreign_send(source, ours, psn, static_cast<std::uint16_t>(identification)));
    cable.turn();
    BOOST_TEST(queue_pair->poll_completions(done) == 1u);
    psn = psn.next();
  }
  auto corrupt = foreign_send(peer, ours, psn, 5);
  corrupt[roce::kBthBytes] ^= std::byte{1};
  cable.b.port.deliver(peer, std::move(corrupt));
  const Address other = Address::ipv4(10, 0, 0, 9, 4791);
  cable.b.port.deliver(other, foreign_send(other, ours, psn, 0));
  cable.turn();
  BOOST_TEST(queue_pair->poll_completions(done) == 0u);
  BOOST_TEST(cable.b.fabric.counters().icrc_errors == 1u);
  BOOST_TEST(cable.b.fabric.counters().wrong_source == 1u);
}

// In a packet without an ICRC, the last four bytes are zero, and damage is not detected. Packets are sent
// without an ICRC only if both ends have a port on the same loopback interface of one host and neither end
// requires an ICRC.
BOOST_AUTO_TEST_CASE(packets_go_without_an_icrc_only_between_two_ends_on_one_loopback_interface) {
  const testing::CableEnd on_loopback{.same_host_only = true, .host_id = 7};
  const auto with = [on_loopback](auto change) {
    auto end = on_loopback;
    change(end);
    return end;
  };
  const std::array others{with([](auto& end) { end.same_host_only = false; }),
                          with([](auto& end) { end.host_id = 8; }), with([](auto& end) { end.host_id = 0; }),
                          with([](auto& end) { end.icrc_on_loopback = true; })};
  const auto protects = [](const testing::CableEnd& end_a, const testing::CableEnd& end_b) {
    Cable cable(end_a, end_b);
    auto [at_a, at_b] = cable.connect();
    std::vector<std::byte> source(3000, std::byte{0x11}), target(3000);
    const auto region = *cable.b.fabric.register_memory(target);
    BOOST_REQUIRE(at_a->post_write({.work_id = 1,
                                    .bytes = source,
                                    .remote_address = region->remote_address(),
                                    .remote_key = region->remote_key()}));
    cable.turn(3);
    std::array<Completion, 1> done;
    BOOST_TEST(at_a->poll_completions(done) == 1u);
    BOOST_TEST((target == source));
    const bool zero = std::ranges::all_of(std::span(cable.a.port.sent.front()).last(4),
                                          [](std::byte b) { return b == std::byte{0}; });
    Address from = cable.a.port.info().address;
    from.port = cable.a.port.udp_port(port::FlowId{1});
    auto damaged = cable.a.port.sent.front();
    damaged[damaged.size() - 100] ^= std::byte{1};
    cable.b.port.deliver(from, std::move(damaged));
    cable.turn();
    const bool noticed = cable.b.fabric.counters().icrc_errors == 1;
    BOOST_TEST(noticed != zero);
    BOOST_TEST(cable.a.fabric.info().icrc ==
               (!end_a.same_host_only || end_a.host_id == 0 || end_a.icrc_on_loopback));
    return !zero;
  };
  BOOST_TEST(!protects(on_loopback, on_loopback));
  for (const auto& other : others) {
    BOOST_TEST(protects(on_loopback, other));
    BOOST_TEST(protects(other, on_loopback));
  }
  BOOST_TEST(protects(others[2], others[2]));
}

BOOST_AUTO_TEST_SUITE_END()
