// Tests with peers that do not run rdmc, or that use another key, version or mode. They must be refused with
// a precise error. A refused peer that runs rdmc must also get this error.
#include "controlplane/connect/framing.hpp"
#include "controlplane/connect/listener.hpp"
#include "dataplane/base/random.hpp"
#include "tests/controlplane/connect/harness.hpp"

namespace rdmc::control::testing {
BOOST_AUTO_TEST_SUITE(unauthenticated_test)
namespace {

ChannelOptions new_key() {
  return options_for(ClusterKey::generate().value());
}

Error refusal_at_server(Harness& harness) {
  BOOST_TEST_REQUIRE(harness.events.wait([&] { return !harness.refusals.empty(); }));
  BOOST_TEST(harness.refusals.size() == 1u);
  return harness.refusals.front();
}

Error refusal_at(Harness& harness, End& end) {
  BOOST_TEST_REQUIRE(harness.events.wait([&] { return !end.refusals.empty(); }));
  BOOST_TEST(end.refusals.size() == 1u);
  BOOST_TEST(!end.established);
  // The error must name the host to which the client has connected.
  BOOST_TEST(end.refusals.front().what.starts_with("127.0.0.1:"), end.refusals.front().what);
  return end.refusals.front();
}

void check(const Error& error, Errc code, std::string_view part = "") {
  BOOST_TEST((error.code == code), error.what);
  BOOST_TEST(error.what.find(part) != std::string::npos, error.what);
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_wrong_key_is_an_authentication_error_on_both_sides, Harness) {
  listen(new_key());
  auto& client = connect_to_listener(new_key());
  check(refusal_at(*this, client), Errc::authentication, "cluster key");
  check(refusal_at_server(*this), Errc::authentication, "cluster key");
}

BOOST_FIXTURE_TEST_CASE(an_insecure_client_and_a_secure_server_both_say_what_is_wrong, Harness) {
  listen(new_key());
  auto& client = connect_to_listener(insecure_options());
  check(refusal_at(*this, client), Errc::authentication, "this side runs with --insecure");
  check(refusal_at_server(*this), Errc::authentication, "the other side runs with --insecure");
}

BOOST_FIXTURE_TEST_CASE(a_secure_client_and_an_insecure_server_both_say_what_is_wrong, Harness) {
  listen(insecure_options());
  auto& client = connect_to_listener(new_key());
  check(refusal_at(*this, client), Errc::authentication, "the other side runs with --insecure");
  check(refusal_at_server(*this), Errc::authentication, "this side runs with --insecure");
}

BOOST_FIXTURE_TEST_CASE(versions_that_differ_are_named_on_both_sides, Harness) {
  ChannelOptions options = new_key();
  listen(options);
  options.protocol_version = 9;
  auto& client = connect_to_listener(options);
  check(refusal_at(*this, client), Errc::version_mismatch,
        "version 1 of the rdmc protocol, this side version 9");
  check(refusal_at_server(*this), Errc::version_mismatch,
        "version 9 of the rdmc protocol, this side version 1");
}

BOOST_FIXTURE_TEST_CASE(a_browser_is_told_apart_and_thrown_out, Harness) {
  for (const bool secure : {true, false}) {
    refusals.clear();
    listen(secure ? new_key() : insecure_options());
    UnauthenticatedClient browser(listener->address());
    browser.say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    check(refusal_at_server(*this), Errc::protocol_error, "'GET / HTTP/1.1");
    BOOST_TEST(browser.hear_all().empty());
  }
}

BOOST_FIXTURE_TEST_CASE(random_bytes_are_refused_and_the_server_goes_on, Harness) {
  const ChannelOptions options = new_key();
  listen(options);
  Random random(7);
  constexpr std::size_t kClients = 50;
  for (std::size_t i = 0; i < kClients; ++i) {
    Bytes noise(64 + random.below(20'000));
    for (auto& b : noise) b = static_cast<std::byte>(random.next());
    if (i % 2 == 0) noise[0] = std::byte{0x16}, noise[1] = std::byte{3}, noise[3] = std::byte{0};
    UnauthenticatedClient client(listener->address());
    client.say(noise);
    client.hang_up();
  }
  BOOST_TEST_REQUIRE(events.wait([&] { return refusals.size() == kClients; }));
  auto& client = connect_to_listener(options);
  BOOST_TEST(events.wait([&] { return client.established; }));
  BOOST_TEST(listener->counters().refused == kClients);
}

BOOST_FIXTURE_TEST_CASE(silence_and_half_a_greeting_end_at_the_deadline, Harness) {
  for (const std::string_view greeting :
       {std::string_view(), std::string_view("rd"), std::string_view("\x16\x03\x01", 3),
        std::string_view("\x16\x03\x01\x00\x80\x01\x00", 7)}) {
    refusals.clear();
    ChannelOptions options = greeting == "rd" ? insecure_options() : new_key();
    options.handshake_deadline = milliseconds(150);
    listen(options);
    UnauthenticatedClient client(listener->address());
    client.say(greeting);
    check(refusal_at_server(*this), Errc::timed_out, "150 ms");
    BOOST_TEST(client.hear_all().empty());
  }
}

BOOST_FIXTURE_TEST_CASE(a_peer_that_leaves_during_the_handshake_is_lost_and_not_a_matter_of_keys, Harness) {
  listen(new_key());
  UnauthenticatedClient client(listener->address());
  client.say(std::string_view("\x16\x03\x01", 3));
  client.hang_up();
  check(refusal_at_server(*this), Errc::peer_failed, "during the handshake");
}

BOOST_FIXTURE_TEST_CASE(a_server_that_leaves_or_resets_during_the_handshake_is_lost_for_the_client, Harness) {
  for (const bool reset : {false, true}) {
    StrangeServer server;
    auto& client = connect_to(server.address(), new_key());
    UnauthenticatedClient peer = server.accept();
    BOOST_TEST(peer.hear(5).size() == 5u);
    if (reset) peer.reset();
    if (!reset) BOOST_TEST(::shutdown(peer.descriptor(), SHUT_WR) == 0);
    check(refusal_at(*this, client), Errc::peer_failed);
  }
}

BOOST_FIXTURE_TEST_CASE(a_server_of_another_protocol_is_quoted_to_the_client, Harness) {
  StrangeServer server;
  auto& client = connect_to(server.address(), new_key());
  UnauthenticatedClient peer = server.accept();
  peer.say("220 mail.example.com ESMTP\r\n");
  check(refusal_at(*this, client), Errc::protocol_error, "'220 mail.example");
}

BOOST_FIXTURE_TEST_CASE(a_server_that_says_nothing_ends_at_the_deadline_of_the_client, Harness) {
  StrangeServer server;
  auto& client = connect_to(server.address(), new_key(), milliseconds(150));
  check(refusal_at(*this, client), Errc::timed_out);
}

BOOST_FIXTURE_TEST_CASE(two_hundred_silent_connections_do_not_keep_out_one_with_the_key, Harness) {
  const ChannelOptions options = new_key();
  listen(options, 64);
  std::list<UnauthenticatedClient> silent;
  for (int i = 0; i < 200; ++i) silent.emplace_back(listener->address()).say(i % 2 == 0 ? "" : "\x16\x03");
  const auto begin = std::chrono::steady_clock::now();
  auto& client = connect_to_listener(options);
  BOOST_TEST_REQUIRE(events.wait([&] { return client.established; }));
  BOOST_TEST((std::chrono::steady_clock::now() - begin < std::chrono::seconds(1)));
  // The listener drops the oldest connections first. So the first connection is closed, and the last one is
  // still open.
  BOOST_TEST(silent.front().hear_all().empty());
  std::vector<Error> seen;
  BOOST_TEST_REQUIRE(events.wait([&] {
    seen = refusals;
    return seen.size() >= 136;
  }));
  for (const Error& refusal : seen) check(refusal, Errc::resource_limit);
  char nothing;
  const bool open = ::recv(silent.back().descriptor(), &nothing, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN;
  BOOST_TEST(open);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control::testing
