#include "controlplane/auth/tls.hpp"

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <optional>

#include "tests/controlplane/auth/session_pair.hpp"

namespace rdmc::control {
BOOST_AUTO_TEST_SUITE(tls_test)
BOOST_AUTO_TEST_CASE(the_same_key_on_both_sides_establishes_and_carries_bytes) {
  const ClusterKey key = ClusterKey::generate().value();
  Pair pair(key, key);
  pair.run();
  BOOST_TEST(pair.client.established());
  BOOST_TEST(pair.server.established());

  const auto secret = text_bytes("the quick brown fox");
  BOOST_TEST(pair.client.write(secret).has_value());
  std::vector<std::byte> wire;
  pair.client.take_output(wire);
  BOOST_TEST(std::ranges::search(wire, secret).empty());  // The plaintext does not appear in the ciphertext.
  BOOST_TEST(pair.server.receive(wire).has_value());
  std::array<std::byte, 64> got;
  BOOST_TEST_REQUIRE(pair.server.read(got).value() == secret.size());
  BOOST_TEST(std::ranges::equal(std::span(got).first(secret.size()), secret));
}

BOOST_AUTO_TEST_CASE(different_keys_fail_with_authentication_on_both_sides) {
  Pair pair(ClusterKey::generate().value(), ClusterKey::generate().value());
  pair.run();
  BOOST_TEST(!pair.client.established());
  BOOST_TEST(!pair.server.established());
  BOOST_TEST_REQUIRE(pair.client_error.has_value());
  BOOST_TEST_REQUIRE(pair.server_error.has_value());
  BOOST_TEST((pair.client_error->code == Errc::authentication), pair.client_error->what);
  BOOST_TEST((pair.server_error->code == Errc::authentication), pair.server_error->what);
  BOOST_TEST_MESSAGE(pair.client_error->what << " / " << pair.server_error->what);
}

BOOST_AUTO_TEST_CASE(keys_are_changed_under_running_programs_without_a_moment_in_which_they_do_not_meet) {
  char folder[] = "/tmp/rdmc-tls-XXXXXX";
  BOOST_REQUIRE(::mkdtemp(folder) != nullptr);
  const std::filesystem::path path(folder), ours = path / "ours", theirs = path / "theirs";
  const auto meet = [&](const TlsContext& client, const TlsContext& server) {
    Pair pair(client, server);
    pair.run();
    return pair.client.established() && pair.server.established();
  };
  // Returns the keys with the given indices. The loop below goes through the contents of a key file during a
  // rotation. The files of the two hosts are never more than one step apart.
  const auto keys = [fresh = std::array{ClusterKey::generate().value(), ClusterKey::generate().value()}](
                        std::initializer_list<std::size_t> which) {
    std::vector<ClusterKey> chosen;
    for (const std::size_t i : which) chosen.push_back(ClusterKey::parse(fresh[i].text()).value());
    return chosen;
  };
  for (const auto& file : {ours, theirs}) BOOST_REQUIRE(keys({0})[0].write(file));
  const auto first = TlsContext::follow(ours).value(), second = TlsContext::follow(theirs).value();
  const auto old = TlsContext::create(keys({0})[0]).value();
  BOOST_TEST((meet(first, second) && meet(old, second)));
  for (const auto& step : {keys({0, 1}), keys({1, 0}), keys({1})}) {
    for (const auto& file : {ours, theirs}) {
      BOOST_REQUIRE(ClusterKey::replace(file, step));
      BOOST_TEST((meet(first, second) && meet(second, first)));
    }
  }
  BOOST_TEST(!meet(old, second));  // `old` has only the old key.
  BOOST_TEST(!meet(second, old));
  BOOST_TEST(first.look().has_value());
  std::filesystem::permissions(ours, std::filesystem::perms{0644});
  BOOST_TEST((first.look().error().code == Errc::permission_denied));
  BOOST_TEST(meet(first, second));
  std::filesystem::permissions(ours, std::filesystem::perms{0600});
  BOOST_TEST(first.look().has_value());
  std::filesystem::remove(ours);
  BOOST_TEST((first.look().error().code == Errc::not_found));
  BOOST_TEST(meet(first, second));  // The keys that were read earlier stay in use.
  BOOST_TEST((TlsContext::follow(ours).error().code == Errc::not_found));
  std::filesystem::remove_all(path);
}

BOOST_AUTO_TEST_CASE(a_handshake_that_was_recorded_proves_nothing_when_it_is_played_back) {
  const ClusterKey key = ClusterKey::generate().value();
  const TlsContext context = context_of(key);
  Pair pair(context, context);
  std::vector<std::vector<std::byte>> recorded;
  for (int flight = 0; flight < 3; ++flight) {
    if (const auto done = pair.client.handshake(); !done) BOOST_ERROR(done.error().what);
    pair.client.take_output(recorded.emplace_back());
    BOOST_TEST(pair.server.receive(recorded.back()).has_value());
    Pair::turn(pair.server, pair.client, pair.server_error);
  }
  BOOST_TEST_REQUIRE(pair.server.established());  // The recorded bytes are those of a complete handshake.
  // Sends the same bytes to a new session of the same server.
  auto again = TlsSession::create(context, Role::server).value();
  std::optional<Error> refusal;
  for (const auto& flight : recorded) {
    if (refusal) break;
    BOOST_TEST(again.receive(flight).has_value());
    if (const auto done = again.handshake(); !done) refusal = done.error();
    BOOST_TEST(!again.established());
  }
  BOOST_TEST_REQUIRE(refusal.has_value());
  BOOST_TEST_MESSAGE(refusal->what);
}

BOOST_AUTO_TEST_CASE(a_record_changed_on_the_way_is_corrupt) {
  const ClusterKey key = ClusterKey::generate().value();
  Pair pair(key, key);
  pair.run();
  BOOST_TEST(pair.client.write(text_bytes("pay 10")).has_value());
  std::vector<std::byte> wire;
  pair.client.take_output(wire);
  wire.back() ^= std::byte{1};
  BOOST_TEST(pair.server.receive(wire).has_value());
  std::array<std::byte, 64> got;
  const auto read = pair.server.read(got);
  BOOST_TEST_REQUIRE(!read.has_value());
  BOOST_TEST((read.error().code == Errc::corrupt), read.error().what);
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_tls_are_a_protocol_error) {
  const ClusterKey key = ClusterKey::generate().value();
  auto server = TlsSession::create(context_of(key), Role::server).value();
  BOOST_TEST(server.receive(text_bytes("GET / HTTP/1.1\r\nHost: x\r\n\r\n")).has_value());
  const auto done = server.handshake();
  BOOST_TEST_REQUIRE(!done.has_value());
  BOOST_TEST((done.error().code == Errc::protocol_error), done.error().what);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control
