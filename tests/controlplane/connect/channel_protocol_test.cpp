#include "controlplane/connect/channel_protocol.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

namespace rdmc::control {
BOOST_AUTO_TEST_SUITE(channel_protocol_test)
namespace {

const ChannelOptions& secure() {
  static const ChannelOptions options{.security = TlsContext::create(ClusterKey::generate().value()).value()};
  return options;
}
const ChannelOptions& other_key() {
  static const ChannelOptions options{.security = TlsContext::create(ClusterKey::generate().value()).value()};
  return options;
}
const ChannelOptions& insecure() {
  static const ChannelOptions options{.security = Insecure{}};
  return options;
}

using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  Bytes bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

/// Carries bytes between `a` and `b` until neither of them has output. The bytes arrive in pieces. `piece`
/// returns the size of each piece.
template <typename Piece>
void carry_all(ChannelProtocol& a, ChannelProtocol& b, Piece piece) {
  const auto carry = [&](ChannelProtocol& from, ChannelProtocol& to) {
    const Bytes bytes = std::exchange(from.output(), {});
    std::span<const std::byte> rest = bytes;
    while (!rest.empty()) {
      const std::size_t cut = std::clamp<std::size_t>(piece(), 1, rest.size());
      to.receive(rest.first(cut));
      rest = rest.subspan(cut);
    }
    return !bytes.empty();
  };
  while (carry(a, b) | carry(b, a)) {
  }
}

template <typename Piece>
void begin(ChannelProtocol& client, ChannelProtocol& server, Piece piece) {
  client.start();
  server.start();
  carry_all(client, server, piece);
}

std::size_t whole() {
  return SIZE_MAX;
}

Bytes frame(std::string_view text) {
  Bytes bytes;
  const auto length = encode_length(static_cast<std::uint32_t>(text.size()));
  bytes.insert(bytes.end(), length.begin(), length.end());
  const auto body = bytes_of(text);
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

void check_failure(const ChannelProtocol& protocol, Errc code, std::string_view part = "") {
  BOOST_TEST_REQUIRE(protocol.failure().has_value());
  BOOST_TEST((protocol.failure()->code == code), protocol.failure()->what);
  BOOST_TEST(protocol.failure()->what.find(part) != std::string::npos, protocol.failure()->what);
  BOOST_TEST(!protocol.established());
}

}  // namespace

BOOST_AUTO_TEST_CASE(two_alike_are_established_and_talk_however_the_bytes_are_cut) {
  for (const ChannelOptions* options : {&secure(), &insecure()}) {
    BOOST_TEST(rc::check([options] {
      ChannelProtocol client(Role::client, *options);
      ChannelProtocol server(Role::server, *options);
      const auto most = *rc::gen::inRange<std::size_t>(1, 400);
      std::size_t next = 1;
      const auto piece = [&] { return next = (next * 7 + 3) % most + 1; };
      begin(client, server, piece);
      RC_ASSERT(client.established() && server.established());
      client.write(frame("question"));
      server.write(frame("answer"));
      server.goodbye();
      carry_all(client, server, piece);
      RC_ASSERT(server.messages() == std::deque<Message>{bytes_of("question")});
      RC_ASSERT(client.messages() == std::deque<Message>{bytes_of("answer")});
      RC_ASSERT(client.ended() && !server.ended());
    }));
  }
}

BOOST_AUTO_TEST_CASE(two_keys_fail_with_authentication_on_both_sides) {
  ChannelProtocol client(Role::client, secure());
  ChannelProtocol server(Role::server, other_key());
  begin(client, server, whole);
  check_failure(client, Errc::authentication, "cluster key");
  check_failure(server, Errc::authentication, "cluster key");
}

BOOST_AUTO_TEST_CASE(insecure_meets_secure_and_both_say_so_whichever_is_the_server) {
  ChannelProtocol plain_client(Role::client, insecure());
  ChannelProtocol tls_server(Role::server, secure());
  begin(plain_client, tls_server, whole);
  check_failure(plain_client, Errc::authentication, "this side runs with --insecure");
  check_failure(tls_server, Errc::authentication, "the other side runs with --insecure");

  ChannelProtocol tls_client(Role::client, secure());
  ChannelProtocol plain_server(Role::server, insecure());
  begin(tls_client, plain_server, whole);
  check_failure(tls_client, Errc::authentication, "the other side runs with --insecure");
  check_failure(plain_server, Errc::authentication, "this side runs with --insecure");
}

BOOST_AUTO_TEST_CASE(versions_that_differ_are_named_on_both_sides) {
  for (const ChannelOptions* options : {&secure(), &insecure()}) {
    ChannelOptions newer = *options;
    newer.protocol_version = kProtocolVersion + 1;
    ChannelProtocol client(Role::client, *options);
    ChannelProtocol server(Role::server, newer);
    begin(client, server, whole);
    check_failure(client, Errc::version_mismatch,
                  "speaks version 2 of the rdmc protocol, this side version 1");
    check_failure(server, Errc::version_mismatch,
                  "speaks version 1 of the rdmc protocol, this side version 2");
  }
}

BOOST_AUTO_TEST_CASE(a_peer_of_another_protocol_is_a_protocol_error_that_quotes_it) {
  for (const ChannelOptions* options : {&secure(), &insecure()}) {
    for (const Role role : {Role::client, Role::server}) {
      ChannelProtocol protocol(role, *options);
      protocol.start();
      protocol.receive(bytes_of("SSH-2.0-OpenSSH_9.2p1\r\n"));
      check_failure(protocol, Errc::protocol_error, "SSH-2.0-OpenSSH_");
    }
  }
}

BOOST_AUTO_TEST_CASE(arbitrary_bytes_never_establish_anything_and_are_not_kept_beyond_the_bound) {
  for (const ChannelOptions* options : {&secure(), &insecure()}) {
    for (const Role role : {Role::client, Role::server}) {
      BOOST_TEST(rc::check([options, role](const std::vector<std::uint8_t>& noise, bool looks_like_tls) {
        ChannelProtocol protocol(role, *options);
        protocol.start();
        Bytes bytes = looks_like_tls ? bytes_of("\x16\x03\x01") : Bytes{};
        for (const auto v : noise) bytes.push_back(static_cast<std::byte>(v));
        if (bytes.size() >= kMagic.size() && may_be_magic(bytes)) return;
        protocol.receive(bytes);
        RC_ASSERT(!protocol.established());
        // The protocol may wait for more bytes. It must refuse at the latest when the limit is exceeded.
        protocol.receive(Bytes(ChannelProtocol::kMaxUnprovedBytes, std::byte{0x5A}));
        RC_ASSERT(!protocol.established());
        RC_ASSERT(protocol.failure().has_value());
        RC_ASSERT(protocol.failure()->code == Errc::protocol_error ||
                  protocol.failure()->code == Errc::authentication);
      }));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_client_hello_that_trickles_beyond_the_bound_is_cut_off) {
  ChannelProtocol server(Role::server, secure());
  // The first record begins a handshake message that claims to be 16 MB long. Each further record adds one
  // byte to this message.
  server.receive(Bytes{std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{0}, std::byte{4}, std::byte{1},
                       std::byte{0xFF}, std::byte{0xFF}, std::byte{0xFF}});
  const Bytes more{std::byte{0x16}, std::byte{3}, std::byte{1}, std::byte{0}, std::byte{1}, std::byte{0}};
  for (std::size_t sent = 0; sent <= ChannelProtocol::kMaxUnprovedBytes && !server.failure();
       sent += more.size())
    server.receive(more);
  check_failure(server, Errc::protocol_error);
}

BOOST_AUTO_TEST_CASE(a_record_changed_on_the_way_ends_the_channel_as_corrupt_after_the_messages_before_it) {
  ChannelProtocol client(Role::client, secure());
  ChannelProtocol server(Role::server, secure());
  begin(client, server, whole);
  client.write(frame("first"));
  Bytes wire = std::exchange(client.output(), {});
  client.write(frame("second"));
  client.output().back() ^= std::byte{1};
  wire.insert(wire.end(), client.output().begin(), client.output().end());
  server.receive(wire);
  BOOST_TEST((server.messages() == std::deque<Message>{bytes_of("first")}));
  BOOST_TEST_REQUIRE(server.failure().has_value());
  BOOST_TEST((server.failure()->code == Errc::corrupt), server.failure()->what);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control
