#include "controlplane/connect/pingpong.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <thread>

#include "controlplane/connect/socket.hpp"
#include "dataplane/base/clock.hpp"

BOOST_AUTO_TEST_SUITE(pingpong_test)

using namespace rdmc;
using namespace rdmc::control;

namespace {

std::array<std::byte, kPingpongLineBytes> line_of(std::string_view text) {
  BOOST_REQUIRE(text.size() == kPingpongLineBytes - 1);
  std::array<std::byte, kPingpongLineBytes> line{};
  std::memcpy(line.data(), text.data(), text.size());
  return line;
}

Errc error_of(std::string_view text) {
  const auto decoded = decode_pingpong(line_of(text));
  BOOST_REQUIRE(!decoded);
  return decoded.error().code;
}

Address host(const char* text) {
  return *parse_address(text, 0);
}

Time soon() {
  return monotonic_now() + seconds(20);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_line_is_written_as_rdma_core_writes_it) {
  const auto ipv4 = encode_pingpong({host("10.78.0.2"), Qpn{0x11}, Psn(0xD03FEA)});
  BOOST_TEST((ipv4 == line_of("0000:000011:d03fea:00000000000000000000ffff0a4e0002")));
  const auto ipv6 = encode_pingpong({host("[fd78::2]"), Qpn{0xABCDEF}, Psn(0)});
  BOOST_TEST((ipv6 == line_of("0000:abcdef:000000:fd780000000000000000000000000002")));
}

BOOST_AUTO_TEST_CASE(what_was_written_is_read_back) {
  rc::check([](bool ipv6, const std::array<std::uint8_t, 16>& ip, std::uint32_t qpn, std::uint32_t psn) {
    PingpongEnd end{.address = {.ipv6 = ipv6}, .qpn = Qpn{2 + qpn % 0xFF'FFFE}, .psn = Psn(psn)};
    std::copy_n(ip.begin(), ipv6 ? 16 : 4, end.address.bytes.begin());
    end.address.bytes[0] = ipv6 ? 0x20 : 10;
    RC_ASSERT(decode_pingpong(encode_pingpong(end)).value() == end);
  });
}

BOOST_AUTO_TEST_CASE(a_line_that_is_none_is_refused_and_so_is_nobodys_address) {
  BOOST_TEST((error_of("0000:000011-d03fea:00000000000000000000ffff0a4e0002") == Errc::protocol_error));
  BOOST_TEST((error_of("0000:00001g:d03fea:00000000000000000000ffff0a4e0002") == Errc::protocol_error));
  BOOST_TEST((error_of("0000:+00011:d03fea:00000000000000000000ffff0a4e0002") == Errc::protocol_error));
  BOOST_TEST((error_of("0000:000001:d03fea:00000000000000000000ffff0a4e0002") == Errc::protocol_error));
  BOOST_TEST((error_of("0000:000011:d03fea:00000000000000000000ffff00000000") == Errc::unsupported));
  BOOST_TEST((error_of("0000:000011:d03fea:00000000000000000000ffffe0000001") == Errc::unsupported));
  BOOST_TEST((error_of("0000:000011:d03fea:00000000000000000000000000000000") == Errc::unsupported));
  rc::check([](const std::vector<std::uint8_t>& noise) {
    RC_ASSERT(!decode_pingpong(std::as_bytes(std::span(noise))));
  });
}

BOOST_AUTO_TEST_CASE(two_ends_learn_each_other_and_the_server_is_ready_before_the_client_knows) {
  const PingpongEnd server_end{host("127.0.0.1"), Qpn{0x22}, Psn(2)},
      client_end{host("127.0.0.1"), Qpn{0x33}, Psn(3)};
  for (const char* loopback : {"127.0.0.1", "[::1]"}) {
    // Finds a port number that is free.
    auto free = listen_on(Address{.ipv6 = false});
    BOOST_REQUIRE(free);
    const std::uint16_t tcp_port = local_address(free->get()).port;
    free->reset();
    std::atomic<bool> ready = false;
    Result<void> served;
    PingpongEnd seen;
    std::thread server([&] {
      auto accepted = PingpongConnection::accept(tcp_port, soon());
      served = accepted ? accepted->exchange(
                              server_end,
                              [&](const PingpongEnd& peer) -> Result<void> {
                                seen = peer;
                                ready = true;
                                return {};
                              },
                              soon())
                        : std::unexpected(accepted.error());
    });
    Result<PingpongConnection> client = fail(Errc::peer_failed, "not tried");
    while (!client && client.error().code == Errc::peer_failed) {  // The server may not listen yet.
      client = PingpongConnection::connect(*parse_address(loopback, tcp_port), soon());
      std::this_thread::yield();
    }
    Result<void> done = client ? client->exchange(
                                     client_end,
                                     [&](const PingpongEnd& peer) -> Result<void> {
                                       BOOST_TEST(ready);
                                       BOOST_TEST((peer == server_end));
                                       return {};
                                     },
                                     soon())
                               : std::unexpected(client.error());
    server.join();
    BOOST_TEST(done.has_value());
    BOOST_TEST(served.has_value());
    BOOST_TEST((seen == client_end));
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_says_nothing_or_hangs_up_is_an_error_by_its_name) {
  auto listener = listen_on(Address::ipv4(127, 0, 0, 1, 0));
  BOOST_REQUIRE(listener);
  const auto ready = [](const PingpongEnd&) -> Result<void> { return {}; };
  const PingpongEnd end{host("127.0.0.1"), Qpn{2}, Psn(0)};
  auto silent = PingpongConnection::connect(local_address(listener->get()), soon());
  BOOST_REQUIRE(silent);
  const auto waited = silent->exchange(end, ready, monotonic_now() + milliseconds(20));
  BOOST_TEST((!waited && waited.error().code == Errc::timed_out));
  listener->reset();  // This resets the waiting connection, which was never accepted.
  const auto hung_up = silent->exchange(end, ready, soon());
  BOOST_TEST((!hung_up && hung_up.error().code == Errc::peer_failed));
}

BOOST_AUTO_TEST_SUITE_END()
