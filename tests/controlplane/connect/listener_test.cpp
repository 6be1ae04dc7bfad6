#include "controlplane/connect/listener.hpp"

#include <sys/resource.h>

#include "tests/controlplane/connect/harness.hpp"

namespace rdmc::control::testing {
BOOST_AUTO_TEST_SUITE(listener_test)
namespace {

ChannelOptions new_key() {
  return options_for(ClusterKey::generate().value());
}

Result<Listener> listen_at(Harness& harness, const Address& address) {
  ListenHandlers handlers;
  handlers.on_channel = [](const Channel&) {};
  return Listener::listen(*harness.loop, address, {.channel = insecure_options()}, std::move(handlers));
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(port_zero_takes_a_free_port_and_reports_it, Harness) {
  listen(new_key());
  BOOST_TEST(listener->address().port != 0);
  BOOST_TEST(host_string(listener->address()) == "127.0.0.1");
}

BOOST_FIXTURE_TEST_CASE(an_address_in_use_and_one_that_is_not_ours_are_named, Harness) {
  listen(new_key());
  const auto taken = listen_at(*this, listener->address());
  BOOST_TEST_REQUIRE(!taken.has_value());
  BOOST_TEST((taken.error().code == Errc::already_exists));
  BOOST_TEST(taken.error().what ==
             "cannot listen on " + to_string(listener->address()) + ": Address already in use");
  // No host has this address (RFC 5737).
  const auto foreign = listen_at(*this, Address::ipv4(192, 0, 2, 1, 0));
  BOOST_TEST_REQUIRE(!foreign.has_value());
  BOOST_TEST((foreign.error().code == Errc::not_found), foreign.error().what);
}

BOOST_FIXTURE_TEST_CASE(a_port_is_free_again_at_once_and_its_channels_live_on, Harness) {
  const auto options = new_key();
  auto [client, server] = pair(options, options);
  const Address address = listener->address();
  listener.reset();
  BOOST_TEST(listen_at(*this, address).has_value());
  BOOST_TEST(send(client, bytes_of("still here")).has_value());
  BOOST_TEST(events.wait([&] { return server.messages.size() == 1; }));
}

BOOST_FIXTURE_TEST_CASE(a_listener_may_be_destroyed_in_its_own_handler, Harness) {
  const auto options = new_key();
  bool called = false;
  ListenHandlers handlers;
  handlers.on_channel = [&, keep = std::make_shared<int>(1)](Channel) {
    listener.reset();
    events.change([&] { called = *keep == 1; });
  };
  listener.emplace(
      Listener::listen(*loop, Address::ipv4(127, 0, 0, 1, 0), {.channel = options}, std::move(handlers))
          .value());
  auto& client = connect_to_listener(options);
  BOOST_TEST(events.wait([&] { return called && client.closings.size() == 1; }));
}

BOOST_FIXTURE_TEST_CASE(without_descriptors_the_listener_waits_instead_of_spinning_and_recovers, Harness) {
  const auto options = insecure_options();
  listen(options);
  // While the process has no free descriptor, the connection waits in the kernel's queue.
  rlimit before;
  BOOST_TEST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const Descriptor waiting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Descriptor next_free(::dup(0));
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(next_free.get());  // All smaller descriptors are in use.
  BOOST_TEST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
  sockaddr_storage storage;
  const socklen_t length = to_sockaddr(listener->address(), storage);
  BOOST_TEST(::connect(waiting.get(), reinterpret_cast<sockaddr*>(&storage), length) == 0);

  bool later = false;
  const auto timer = loop->after(milliseconds(350), [&] { events.change([&] { later = true; }); });
  BOOST_TEST(events.wait([&] { return later; }));
  const auto failures = listener->counters().accept_failures;
  BOOST_TEST(failures >= 1u);
  BOOST_TEST(failures <= 5u);  // At most one failure is counted in 100 ms.
  BOOST_TEST(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  auto& client = connect_to_listener(options);
  BOOST_TEST(events.wait([&] { return client.established; }));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control::testing
