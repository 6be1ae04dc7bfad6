// Tests attacks on nodes of the embedded store. The attackers are unauthenticated clients, and broken clients
// that have the key. The nodes are real processes.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <vector>

#include "controlplane/view/messages.hpp"
#include "dataplane/base/random.hpp"
#include "tests/controlplane/store/store_nodes.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(store_abuse_test)
namespace {

struct Serving {
  Serving() : nodes(3), client(nodes.client()) {
    nodes.start_all();
    BOOST_TEST_REQUIRE(client.wait_until_up());
    BOOST_TEST_REQUIRE(client.advance("g", 1, [](const view::View&) {}).has_value());
    for (std::size_t node = 0; node < 3; ++node)
      BOOST_TEST_REQUIRE(wait_for_stage(nodes, node, Stage::serving));
  }
  /// Checks that no node has ended, and that the store still accepts a view.
  void go_on() {
    for (std::size_t node = 0; node < 3; ++node) BOOST_TEST(nodes.runs(node));
    for (std::size_t node = 0; node < 3; ++node) BOOST_TEST(wait_for_stage(nodes, node, Stage::serving));
    BOOST_TEST(client.advance("g", 1, [](const view::View&) {}).has_value());
  }
  RawClient with_key(std::size_t node) { return {nodes.endpoints()[node], nodes.channel()}; }
  Bytes noise(std::size_t bytes) {
    Bytes made(bytes);
    for (std::byte& one : made) one = static_cast<std::byte>(random.next());
    return made;
  }

  StoreNodes nodes;
  StoreClient client;
  Random random{7};
};

BOOST_FIXTURE_TEST_CASE(noise_on_the_ports_harms_no_node, Serving) {
  for (int i = 0; i < 60; ++i) {
    const Address node = nodes.endpoints()[static_cast<std::size_t>(i) % 3];
    const int unauthenticated = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(node.port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    BOOST_TEST_REQUIRE(::connect(unauthenticated, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    const Bytes words = noise(1 + random.below(4096));
    static_cast<void>(::send(unauthenticated, words.data(), words.size(), MSG_NOSIGNAL));
    ::close(unauthenticated);
  }
  go_on();
}

BOOST_FIXTURE_TEST_CASE(a_client_that_says_nonsense_with_the_key_loses_its_channel, Serving) {
  for (std::size_t node = 0; node < 3; ++node) {
    RawClient client_with_key = with_key(node);
    BOOST_TEST_REQUIRE(client_with_key.is_up());
    static_cast<void>(client_with_key.say(Bytes(64, std::byte{0xff})));
    BOOST_TEST(client_with_key.is_closed());
  }
  for (int i = 0; i < 30; ++i) {
    RawClient noisy = with_key(static_cast<std::size_t>(i) % 3);
    BOOST_TEST_REQUIRE(noisy.is_up());
    static_cast<void>(noisy.say(noise(1 + random.below(300))));
  }
  go_on();
}

BOOST_FIXTURE_TEST_CASE(a_message_that_is_too_long_is_refused, Serving) {
  control::ChannelOptions generous = nodes.channel();
  generous.max_message_bytes = 64 << 20;
  generous.max_queued_bytes = 64 << 20;
  RawClient client_with_key(nodes.endpoints()[0], generous);
  BOOST_TEST_REQUIRE(client_with_key.is_up());
  static_cast<void>(client_with_key.say(Bytes(20 << 20)));
  BOOST_TEST(client_with_key.is_closed());
  go_on();
}

/// The proposal is a right one, which all acceptors have accepted.
BOOST_FIXTURE_TEST_CASE(a_proposal_that_is_said_again_later_changes_nothing, Serving) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t node = 0; node < 3; ++node) {
    clients.push_back(std::make_unique<RawClient>(nodes.endpoints()[node], nodes.channel()));
    BOOST_TEST_REQUIRE(clients.back()->is_up());
  }
  const Configuration configuration = clients[0]->ask(StateRequest{})->known;
  BOOST_TEST_REQUIRE(configuration.epoch > 0u);
  // This ballot is higher than any ballot that the nodes may have promised.
  const Ballot ballot{configuration.epoch, 1 << 20, {1, 1}};
  Accepted newest;
  for (const auto& client_with_key : clients) {
    const auto promised = client_with_key->ask(Prepare{"g", ballot});
    const auto* const accepted = std::get_if<Accepted>(&promised->body);
    BOOST_TEST_REQUIRE(accepted != nullptr);
    if (newest.ballot < accepted->ballot) newest = *accepted;
  }
  const Accept again{"g", {ballot, newest.value}};
  for (int times = 0; times < 2; ++times)
    for (const auto& client_with_key : clients)
      BOOST_TEST(std::holds_alternative<Done>(client_with_key->ask(again)->body));
  go_on();
  const view::View now = client.read("g").value();
  for (const auto& client_with_key : clients) static_cast<void>(client_with_key->ask(again));
  BOOST_TEST((client.read("g").value() == now));
}

BOOST_FIXTURE_TEST_CASE(a_ballot_that_leaps_to_the_end_of_the_numbers_is_refused, Serving) {
  for (std::size_t node = 0; node < 3; ++node) {
    RawClient client_with_key = with_key(node);
    BOOST_TEST_REQUIRE(client_with_key.is_up());
    const std::uint64_t epoch = client_with_key.ask(StateRequest{})->known.epoch;
    const auto refused = client_with_key.ask(Prepare{"g", {epoch, std::uint64_t{1} << 62, {1, 1}}});
    const auto* const refusal = std::get_if<Refusal>(&refused->body);
    BOOST_TEST_REQUIRE(refusal != nullptr);
    BOOST_TEST((refusal->reason == Refused::out_of_range));
  }
  go_on();
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
