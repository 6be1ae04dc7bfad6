// Tests nodes of the embedded store in this process, on control loops that also have other users.
#include "controlplane/store/store_node.hpp"

#include <stdlib.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <filesystem>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/connect/socket.hpp"
#include "controlplane/store/embedded_store.hpp"
#include "controlplane/store/survivor.hpp"
#include "controlplane/view/messages.hpp"
#include "tests/controlplane/store/store_client.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(store_node_test)
namespace {

struct Process {
  Process() {
    std::string name = (std::filesystem::temp_directory_path() / "rdmc-node-XXXXXX").string();
    BOOST_TEST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Process() { std::filesystem::remove_all(path); }

  void reserve(std::size_t nodes) {
    for (std::size_t i = 0; i < nodes; ++i) {
      reserved.push_back(control::reserve(Address::ipv4(127, 0, 0, 1, 0)).value());
      addresses.push_back(control::local_address(reserved.back().get()));
    }
  }
  control::ChannelOptions channel() const { return {.security = control::TlsContext::create(key).value()}; }
  NodeOptions options(std::size_t self, const std::string& directory) const {
    return {.directory = directory,
            .self = self,
            .nodes = addresses,
            .listen = addresses.at(self),
            .channel = {.channel = channel()}};
  }
  std::unique_ptr<view::ViewStore> client_on(control::ControlLoop& on) const {
    return EmbeddedStore::create(on, {.nodes = addresses, .channel = channel()}).value();
  }
  bool comes_to(const StoreNode& node, Stage stage) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (loop->call([&] { return node.status().stage; }) != stage)
      if (std::chrono::steady_clock::now() > limit) return false;
    return true;
  }
  Errc refused(const NodeOptions& wrong) {
    const auto node = StoreNode::start(*loop, wrong);
    BOOST_TEST_REQUIRE(!node.has_value());
    return node.error().code;
  }

  std::unique_ptr<control::ControlLoop> loop = control::ControlLoop::create().value();
  control::ClusterKey key = control::ClusterKey::generate().value();
  std::filesystem::path path;
  std::vector<Descriptor> reserved;
  std::vector<Address> addresses;
};

BOOST_FIXTURE_TEST_CASE(nodes_without_disks_live_on_the_loop_of_a_process_that_uses_the_store, Process) {
  reserve(3);
  std::vector<std::unique_ptr<StoreNode>> nodes;
  for (std::size_t i = 0; i < 3; ++i) nodes.push_back(StoreNode::start(*loop, options(i, "")).value());
  StoreClient client([&](control::ControlLoop& own) { return client_on(own); });
  BOOST_TEST_REQUIRE(client.wait_until_up());
  const auto first = client.advance("g", 1, [](const view::View&) {});
  BOOST_TEST_REQUIRE(first.has_value());
  // A node without a directory loses its state when it ends. After a restart, the other nodes let it in.
  nodes[0].reset();
  nodes[0] = StoreNode::start(*loop, options(0, "")).value();
  BOOST_TEST(comes_to(*nodes[0], Stage::serving));
  nodes[1].reset();
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST((client.read("g").value() == *first));
  BOOST_TEST(client.advance("g", 1, [](const view::View&) {}).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_node_without_state_takes_in_more_than_a_process_s_other_channels_let_through,
                        Process) {
  reserve(3);
  constexpr std::uint32_t kOthers = 256 << 10;
  const auto node_options = [&](std::size_t i) {
    NodeOptions node = options(i, "");
    node.channel.channel.max_message_bytes = kOthers;
    return node;
  };
  std::vector<std::unique_ptr<StoreNode>> nodes;
  for (std::size_t i = 0; i < 3; ++i) nodes.push_back(StoreNode::start(*loop, node_options(i)).value());
  StoreClient client([&](control::ControlLoop& own) {
    control::ChannelOptions narrow = channel();
    narrow.max_message_bytes = kOthers;
    return EmbeddedStore::create(own, {.nodes = addresses, .channel = narrow}).value();
  });
  BOOST_TEST_REQUIRE(client.wait_until_up());
  view::View large = view_of(1, 1);
  for (std::uint64_t member = 2; member <= view::kMaxMembers; ++member) {
    large.members.push_back(large.members.front());
    large.members.back().id = view::MemberId{member};
    large.members.back().address.port = static_cast<std::uint16_t>(member);
    large.members.back().name.assign(view::kMaxNameBytes, 'x');
  }
  constexpr std::size_t kGroups = 8;
  for (std::size_t group = 0; group < kGroups; ++group)
    BOOST_TEST_REQUIRE(client.swaps(std::to_string(group), large));
  BOOST_TEST(view::encode_view(large).size() * kGroups > kOthers);
  nodes[2].reset();
  nodes[2] = StoreNode::start(*loop, node_options(2)).value();
  BOOST_TEST(comes_to(*nodes[2], Stage::serving));
  BOOST_TEST(client.until_answered([&] { return client.list(); }).value().size() == kGroups);
}

BOOST_FIXTURE_TEST_CASE(a_node_that_is_replaced_says_so_once, Process) {
  reserve(3);
  std::array<std::atomic<int>, 3> ended{};
  std::vector<std::unique_ptr<StoreNode>> nodes;
  for (std::size_t i = 0; i < 3; ++i) {
    NodeOptions node = options(i, (path / std::to_string(i)).string());
    node.ended = [&told = ended[i]](const Error& cause) { told += cause.code == Errc::cancelled ? 1 : 100; };
    nodes.push_back(StoreNode::start(*loop, node).value());
  }
  for (const auto& node : nodes) BOOST_TEST_REQUIRE(comes_to(*node, Stage::serving));
  const auto own = control::ControlLoop::create().value();
  const auto needless = name_survivor(*own, addresses[0], channel());
  BOOST_TEST_REQUIRE(!needless.has_value());
  BOOST_TEST(needless.error().what.contains("needs no survivor"));
  BOOST_TEST(name_survivor(*own, addresses[0], channel(), true).has_value());
  for (const std::size_t i : {1u, 2u}) {
    BOOST_TEST(comes_to(*nodes[i], Stage::replaced));
    BOOST_TEST(loop->call([&] { return ended[i].load(); }) == 1);
    // After a restart, the node reports the same stage again. With an empty directory it answers clients
    // again.
    nodes[i].reset();
    nodes[i] = StoreNode::start(*loop, options(i, (path / std::to_string(i)).string())).value();
    BOOST_TEST(comes_to(*nodes[i], Stage::replaced));
    nodes[i].reset();
    nodes[i] = StoreNode::start(*loop, options(i, (path / ("new" + std::to_string(i))).string())).value();
    BOOST_TEST(comes_to(*nodes[i], Stage::serving));
  }
  BOOST_TEST(loop->call([&] { return ended[0].load(); }) == 0);
}

BOOST_FIXTURE_TEST_CASE(a_node_whose_disk_refuses_a_write_answers_nobody_until_it_is_started_again, Process) {
  reserve(1);
  const auto directory = (path / "node").string();
  auto node = StoreNode::start(*loop, options(0, directory)).value();
  StoreClient client([&](control::ControlLoop& own) { return client_on(own); });
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST_REQUIRE(client.swap("g", view_of(1, 1)).value().swapped);
  // From here on, no file may become longer than the journal is now.
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto ignored = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{std::filesystem::file_size(directory + "/journal"), before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &full);
  const auto swapped = client.swap("g", view_of(2, 1));
  const auto read = client.read("g");
  const NodeStatus status = loop->call([&] { return node->status(); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, ignored);
  BOOST_TEST(!swapped.has_value());
  BOOST_TEST(!read.has_value());
  BOOST_TEST((status.stage == Stage::failed));
  BOOST_TEST(status.text.contains("it can keep nothing any more"));
  BOOST_TEST_REQUIRE(status.ending.has_value());
  BOOST_TEST((status.ending->code == Errc::no_space || status.ending->code == Errc::io_error));
  node.reset();
  node = StoreNode::start(*loop, options(0, directory)).value();
  BOOST_TEST_REQUIRE(client.wait_until_up());
  const view::View stands = client.read("g").value();
  BOOST_TEST((stands == view_of(1, 1) || stands == view_of(2, 1)));
  BOOST_TEST(client.advance("g", 1, [](const view::View&) {}).has_value());
}

BOOST_FIXTURE_TEST_CASE(what_cannot_be_a_node_is_refused_by_name, Process) {
  reserve(3);
  NodeOptions two = options(0, "");
  two.nodes.pop_back();
  BOOST_TEST((refused(two) == Errc::invalid_argument));
  NodeOptions fourth = options(0, "");
  fourth.self = 3;
  BOOST_TEST((refused(fourth) == Errc::invalid_argument));
  BOOST_TEST(!EmbeddedStore::create(*loop, {.nodes = two.nodes, .channel = channel()}).has_value());
}

BOOST_FIXTURE_TEST_CASE(a_directory_is_of_one_node_and_of_one_store, Process) {
  reserve(3);
  const auto directory = [&](std::size_t i) { return (path / std::to_string(i)).string(); };
  {
    std::vector<std::unique_ptr<StoreNode>> nodes;
    for (std::size_t i = 0; i < 3; ++i)
      nodes.push_back(StoreNode::start(*loop, options(i, directory(i))).value());
    StoreClient client([&](control::ControlLoop& own) { return client_on(own); });
    BOOST_TEST_REQUIRE(client.wait_until_up());
    // Another node uses this directory.
    BOOST_TEST((refused(options(0, directory(0))) == Errc::already_exists));
    for (const auto& node : nodes) BOOST_TEST_REQUIRE(comes_to(*node, Stage::serving));
  }
  BOOST_TEST((refused(options(1, directory(0))) == Errc::invalid_argument));
  NodeOptions alone = options(0, directory(0));
  alone.nodes.clear();
  BOOST_TEST((refused(alone) == Errc::invalid_argument));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
