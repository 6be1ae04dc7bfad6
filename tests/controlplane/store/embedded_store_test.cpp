// Against real processes, each with a node of the embedded store.
#include <boost/test/unit_test.hpp>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/store/embedded_store.hpp"
#include "controlplane/store/store_server.hpp"
#include "tests/controlplane/connect/harness.hpp"
#include "tests/controlplane/store/store_trials.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(embedded_store_test)
namespace {

class StoreNodes final : public ServerProcesses {
 public:
  explicit StoreNodes(std::size_t nodes)
      : ServerProcesses(nodes), key_(control::ClusterKey::generate().value()) {
    BOOST_TEST_REQUIRE(key_.write(key_file()).has_value());
    for (std::size_t i = 0; i < nodes; ++i) start(i);
  }
  static auto client_with(const control::ClusterKey& key) {
    return [&key](const std::vector<Address>& nodes) {
      return StoreClient([&](control::ControlLoop& loop) -> std::unique_ptr<view::ViewStore> {
        const control::ChannelOptions channel{.security = control::TlsContext::create(key).value()};
        return EmbeddedStore::create(loop, {.nodes = nodes, .channel = channel}).value();
      });
    };
  }
  const Address& peer(std::size_t index) const { return servers()[index].peer; }
  auto client() const { return client_with(key_); }
  control::ChannelOptions channel() const { return control::testing::options_for(key_); }

 private:
  std::filesystem::path key_file() const { return directory() / "key"; }
  std::vector<std::string> command(std::size_t index) const override {
    std::vector<std::string> words{STORE_NODE, data(index), std::to_string(index),
                                   to_string(servers()[index].client), key_file()};
    for (const Server& server : servers()) words.push_back(to_string(server.peer));
    return words;
  }

  control::ClusterKey key_;
};

BOOST_AUTO_TEST_CASE(one_node_keeps_one_view_of_each_epoch_and_says_what_stands) {
  StoreNodes nodes(1);
  keeps_one_view_of_each_epoch_and_says_what_stands(nodes, nodes.client());
}

BOOST_AUTO_TEST_CASE(a_node_that_dies_and_comes_back_is_found_again_by_requests_and_watches) {
  StoreNodes nodes(1);
  is_found_again_after_its_death_by_requests_and_watches(nodes, nodes.client());
}

BOOST_AUTO_TEST_CASE(three_nodes_killed_one_after_the_other_under_load_lose_and_split_nothing) {
  StoreNodes nodes(3);
  three_killed_one_after_the_other_under_load_lose_and_split_nothing(nodes, nodes.client());
}

BOOST_AUTO_TEST_CASE(one_node_alone_listens_nowhere_but_for_clients) {
  StoreNodes nodes(1);
  BOOST_TEST_REQUIRE(nodes.client()(nodes.endpoints()).wait_until_up());
  // The port where it would hear other nodes is still free.
  BOOST_TEST(control::listen_on(nodes.peer(0)).has_value());
}

BOOST_AUTO_TEST_CASE(who_has_another_key_is_told_nothing) {
  StoreNodes nodes(1);
  BOOST_TEST_REQUIRE(nodes.client()(nodes.endpoints()).wait_until_up());
  const auto other = control::ClusterKey::generate().value();
  const auto answer = StoreNodes::client_with(other)(nodes.endpoints()).read("g");
  BOOST_TEST((answer.error().code == Errc::authentication));
}

BOOST_AUTO_TEST_CASE(one_client_too_many_takes_the_place_of_who_has_been_silent_longest) {
  StoreNodes nodes(1);
  BOOST_TEST_REQUIRE(nodes.client()(nodes.endpoints()).wait_until_up());
  control::testing::Harness silent;
  const auto channel = nodes.channel();
  const auto come = [&]() -> control::testing::End& {
    auto& end = silent.connect_to(nodes.endpoints().front(), channel);
    BOOST_TEST_REQUIRE(silent.events.wait([&] { return end.established; }));
    return end;
  };
  auto& first = come();
  for (std::size_t i = 1; i < StoreServer::kMostClients; ++i) come();
  silent.events.change([&] { BOOST_TEST(first.closings.empty()); });
  BOOST_TEST(nodes.client()(nodes.endpoints()).read("g").has_value());
  BOOST_TEST(silent.events.wait([&] { return !first.closings.empty(); }));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
