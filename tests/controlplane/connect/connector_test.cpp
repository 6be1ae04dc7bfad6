#include "controlplane/connect/connector.hpp"

#include "tests/controlplane/connect/harness.hpp"

namespace rdmc::control::testing {
BOOST_AUTO_TEST_SUITE(connector_test)
namespace {

ChannelOptions new_key() {
  return options_for(ClusterKey::generate().value());
}

/// A port of 127.0.0.1 on which no process listens. The socket stays bound, so that no other process gets the
/// port.
struct ClosedPort {
  ClosedPort() : socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_storage storage;
    const socklen_t length = to_sockaddr(Address::ipv4(127, 0, 0, 1, 0), storage);
    BOOST_TEST_REQUIRE(::bind(socket.get(), reinterpret_cast<sockaddr*>(&storage), length) == 0);
    port = local_address(socket.get()).port;
  }
  Descriptor socket;
  std::uint16_t port;
};

struct Outcome {
  explicit Outcome(Harness& all) : harness(all) {}
  void connect_to(std::string host, std::uint16_t port, const ChannelOptions& options,
                  Duration deadline = seconds(10)) {
    attempt = connect(*harness.loop, std::move(host), port, options, deadline, [this](Result<Channel> made) {
      harness.events.change([&] { result.emplace(std::move(made)); });
    });
  }
  Error error() {
    BOOST_TEST_REQUIRE(harness.events.wait([&] { return result.has_value(); }));
    BOOST_TEST_REQUIRE(!result->has_value());
    return result->error();
  }
  bool succeeded() {
    return harness.events.wait([&] { return result.has_value(); }) && result->has_value();
  }
  Harness& harness;
  std::optional<Result<Channel>> result;
  Connecting attempt;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_name_is_resolved_and_its_addresses_are_tried_until_one_answers, Harness) {
  const auto options = new_key();
  // The listener has only the address 127.0.0.1. The first address of localhost may be ::1.
  listen(options);
  Outcome outcome(*this);
  outcome.connect_to("localhost", listener->address().port, options);
  BOOST_TEST(outcome.succeeded());
  BOOST_TEST(to_string(outcome.result->value().peer()) == to_string(listener->address()));
}

BOOST_FIXTURE_TEST_CASE(a_link_local_address_is_refused_as_such, Harness) {
  Outcome outcome(*this);
  outcome.connect_to("fe80::1", 7700, new_key());
  const auto error = outcome.error();
  BOOST_TEST((error.code == Errc::unsupported));
  BOOST_TEST(error.what == "[fe80::1]:7700: connect: a link-local address; use one that all hosts reach");
  BOOST_TEST((listen_on(parse_address("[fe80::1]:0", 0).value()).error().code == Errc::unsupported));
}

BOOST_FIXTURE_TEST_CASE(a_name_that_does_not_exist_is_not_found, Harness) {
  // A name in "invalid" never resolves (RFC 6761). If there is no name server, the resolver returns "try
  // again".
  Outcome outcome(*this);
  outcome.connect_to("no-such-host.invalid", 7700, new_key());
  const Error error = outcome.error();
  BOOST_TEST((error.code == Errc::not_found || error.code == Errc::timed_out), error.what);
  BOOST_TEST(error.what.starts_with("no-such-host.invalid:7700: "), error.what);
}

BOOST_FIXTURE_TEST_CASE(a_port_without_a_listener_is_refused_naming_the_host, Harness) {
  const ClosedPort closed;
  Outcome outcome(*this);
  outcome.connect_to("127.0.0.1", closed.port, new_key());
  const Error error = outcome.error();
  BOOST_TEST((error.code == Errc::peer_failed), error.what);
  BOOST_TEST(error.what == "127.0.0.1:" + std::to_string(closed.port) + ": connect: Connection refused");
}

BOOST_FIXTURE_TEST_CASE(a_name_whose_addresses_all_fail_tells_the_cause_of_each, Harness) {
  const ClosedPort closed;
  Outcome outcome(*this);
  outcome.connect_to("localhost", closed.port, new_key());
  const Error error = outcome.error();
  BOOST_TEST((error.code == Errc::peer_failed), error.what);
  BOOST_TEST(error.what.starts_with("localhost:" + std::to_string(closed.port) + ": "), error.what);
  BOOST_TEST(error.what.find("127.0.0.1: connect: Connection refused") != std::string::npos, error.what);
}

BOOST_FIXTURE_TEST_CASE(ipv6_hosts_are_written_without_brackets_and_named_with_them, Harness) {
  const auto options = new_key();
  ListenHandlers handlers;
  handlers.on_channel = [](const Channel&) {};
  auto on_six =
      Listener::listen(*loop, parse_address("::1", 0).value(), {.channel = options}, std::move(handlers));
  if (!on_six) return;  // This machine has no IPv6.
  Outcome outcome(*this);
  outcome.connect_to("::1", on_six->address().port, options);
  BOOST_TEST(outcome.succeeded());
  const std::uint16_t port = on_six->address().port;
  { const Listener gone = std::move(*on_six); }
  Outcome refused(*this);
  refused.connect_to("::1", port, options);
  BOOST_TEST(refused.error().what.starts_with("[::1]:" + std::to_string(port) + ": "));
}

BOOST_FIXTURE_TEST_CASE(an_attempt_that_is_destroyed_never_calls_back, Harness) {
  StrangeServer silent;
  Outcome outcome(*this);
  outcome.connect_to("127.0.0.1", silent.address().port, new_key());
  UnauthenticatedClient peer = silent.accept();
  BOOST_TEST(peer.hear(5).size() == 5u);
  outcome.attempt = Connecting();
  peer.hear_all();  // Returns when the client has closed the connection.
  BOOST_TEST(!loop->call([&] { return outcome.result.has_value(); }));
}

BOOST_FIXTURE_TEST_CASE(the_attempt_may_be_destroyed_in_its_handler, Harness) {
  const auto options = new_key();
  listen(options);
  std::optional<Connecting> attempt;
  bool called = false;
  bool connected = false;
  loop->call([&] {
    attempt.emplace(
        connect(*loop, "127.0.0.1", listener->address().port, options, seconds(5), [&](auto made) {
          attempt.reset();
          events.change([&] {
            called = true;
            connected = made.has_value();
          });
        }));
  });
  BOOST_TEST(events.wait([&] { return called; }));
  BOOST_TEST(connected);
}

BOOST_FIXTURE_TEST_CASE(three_hundred_members_connect_at_once, Harness) {
  // 300 handshakes take many seconds with sanitizers on a busy machine.
  constexpr Duration kDeadline = seconds(100);
  auto options = new_key();
  options.handshake_deadline = kDeadline;
  listen(options);
  for (int i = 0; i < 300; ++i) connect_to(listener->address(), options, kDeadline);
  BOOST_TEST(events.wait([&] {
    return std::ranges::all_of(clients,
                               [](const End& end) { return end.established || !end.refusals.empty(); });
  }));
  BOOST_TEST(std::ranges::count_if(clients, [](const End& end) { return end.established; }) == 300);
}

BOOST_FIXTURE_TEST_CASE(a_loop_that_stops_does_not_wait_for_the_resolver, Harness) {
  Outcome outcome(*this);
  outcome.connect_to("name-that-is-looked-up.invalid", 7700, new_key());
  loop.reset();
  BOOST_TEST((!outcome.result || !outcome.result->has_value()));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control::testing
