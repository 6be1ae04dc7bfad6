#include "lib/include/rdmc/mesh.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <future>
#include <thread>
#include <utility>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/connect/connector.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/connect/socket.hpp"
#include "controlplane/peer/context.hpp"
#include "controlplane/peer/messages.hpp"
#include "dataplane/base/clock.hpp"
#include "tests/controlplane/auth/certificates.hpp"
#include "tests/lib/group/nodes.hpp"

BOOST_AUTO_TEST_SUITE(mesh_test)

using namespace rdmc;
using namespace rdmc::testing;

namespace {

struct KeyFile {
  explicit KeyFile(const char* name) : path(std::filesystem::temp_directory_path() / name) {
    std::filesystem::remove(path);
    BOOST_REQUIRE(control::ClusterKey::generate().value().write(path));
  }
  ~KeyFile() { std::filesystem::remove(path); }
  std::filesystem::path path;
};

struct Party {
  explicit Party(std::uint32_t count, std::uint16_t port, bool encrypt = false) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto address = Address::ipv4(127, 0, 4, static_cast<std::uint8_t>(i + 1), 0);
      // Each node acts as a separate process.
      nodes.push_back(std::move(*Node::create({.id = NodeId{i},
                                               .address = address,
                                               .fabric = "udp",
                                               .context = make_context(),
                                               .encrypt = encrypt})));
      members.push_back({NodeId{i}, host_string(address), port});
    }
    results.resize(count);
  }
  void join(const std::vector<MeshOptions>& options) {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      threads.emplace_back([&, i] { results[i] = connect_mesh(*nodes[i], members, options[i]); });
  }
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<MeshMember> members;
  std::vector<Result<void>> results;
};

std::string unique(const char* name) {
  return name + std::to_string(getpid());
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_who_hold_the_key_are_connected_and_can_make_encrypted_groups) {
  const KeyFile key(unique("rdmc-mesh-key-").c_str());
  std::vector<Heard> heard(4);
  const std::vector<std::byte> message(300'000, std::byte{5});
  Party party(4, 7801, true);
  party.join(std::vector<MeshOptions>(4, {.key_file = key.path}));
  for (const auto& result : party.results)
    BOOST_TEST(result.has_value(), (result ? "" : result.error().what));
  const std::vector<NodeId> ids{NodeId{0}, NodeId{1}, NodeId{2}, NodeId{3}};
  for (std::uint32_t i = 0; i < 4; ++i)
    BOOST_REQUIRE(party.nodes[i]->create_group(kGroup, ids, NodeId{3}, {}, heard[i].callbacks()));
  BOOST_REQUIRE(party.nodes[3]->send(kGroup, message));
  for (std::uint32_t i = 0; i < 3; ++i)
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].delivered.size() == 1; }));
}

BOOST_AUTO_TEST_CASE(whoever_has_another_key_is_named_to_all_others_at_once) {
  const KeyFile key(unique("rdmc-mesh-one-").c_str()), other(unique("rdmc-mesh-two-").c_str());
  // Tests three cases for the member with the other key: it dials both others; it dials one and is dialled by
  // the other; or it is dialled by both.
  for (const std::size_t odd : {2U, 1U, 0U}) {
    Party party(3, static_cast<std::uint16_t>(7820 + odd));
    // The timeout is so long that it cannot end the test.
    std::vector<MeshOptions> options(3, {.key_file = key.path, .timeout = seconds(600)});
    options[odd].key_file = other.path;
    party.join(options);
    for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(!party.results[i].has_value());
    BOOST_TEST(failed_with(party.results[odd], Errc::authentication));
    for (std::size_t i = 0; i < 3; ++i) {
      if (i == odd) continue;
      const std::string& what = party.results[i].error().what;
      BOOST_TEST((what.find("node " + std::to_string(odd)) != std::string::npos), what);
    }
  }
}

namespace {

/// A process with this key. It acts as a member, and the test decides what it sends and does.
struct PlayedMember {
  explicit PlayedMember(const std::filesystem::path& key)
      : peers(context->peers({.key_file = key, .certificates = {}, .insecure = false}).value()) {}
  /// Dials the process that listens at the address of a member. Repeats this until a process listens there.
  Result<peer::Peer> dial(const MeshMember& whom) {
    for (;;) {
      std::promise<Result<peer::Peer>> found;
      const auto dialing = peers->dial(whom.host, whom.port, seconds(60),
                                       [&](Result<peer::Peer> one) { found.set_value(std::move(one)); });
      auto result = found.get_future().get();
      if (result || result.error().code != Errc::peer_failed) return result;
    }
  }

  std::shared_ptr<Context> context = make_context();
  std::shared_ptr<peer::Peers> peers;
};

}  // namespace

BOOST_AUTO_TEST_CASE(
    a_node_without_a_thread_of_its_own_is_not_held_by_those_who_dial_it_while_the_mesh_fails) {
  const KeyFile key(unique("rdmc-mesh-ours-").c_str()), another(unique("rdmc-mesh-odd-").c_str());
  const std::vector<MeshMember> members{
      {NodeId{0}, "127.0.4.1", 7830}, {NodeId{1}, "127.0.4.2", 7830}, {NodeId{2}, "127.0.4.3", 7830}};
  PlayedMember odd(another.path), right(key.path);
  // First the member with the other key connects to this node, so the mesh fails as soon as this node has
  // dialled that member. Then the member with the right key sends a request. This request has to wait for a
  // turn of the node.
  std::promise<void> has_asked;
  const auto door =
      odd.peers->listen(*parse_address(members[1].host, members[1].port), {.channel = odd.peers->options()},
                        [&, told = false](const Address&, const Error&) mutable {
                          if (!std::exchange(told, true)) has_asked.set_value();
                        });
  BOOST_REQUIRE(door.has_value());
  peer::Peers::Handle asking;
  std::jthread others([&] {
    const auto ours = right.dial(members[0]);
    BOOST_TEST_REQUIRE(ours.has_value());
    BOOST_TEST(failed_with(odd.dial(members[0]), Errc::authentication));
    has_asked.get_future().get();
    right.peers->loop().call([&] {
      peer::Peer(*ours).open("mesh/0/", {{std::byte{0}, std::byte{0}, std::byte{0}, std::byte{2}}, {}},
                             [](const Result<control::Channel>&, const peer::Offer&) {});
    });
  });
  const auto node = *Node::create({.id = NodeId{0},
                                   .address = Address::ipv4(127, 0, 4, 1, 0),
                                   .fabric = "udp",
                                   .context = make_context(),
                                   .own_thread = false});
  const auto connected = connect_mesh(*node, members, {.key_file = key.path, .timeout = seconds(600)});
  BOOST_TEST(!connected.has_value());
}

BOOST_AUTO_TEST_CASE(a_member_with_another_key_is_named_even_if_its_door_is_closed_at_first) {
  const KeyFile key(unique("rdmc-mesh-one-key-").c_str()), another(unique("rdmc-mesh-odd-key-").c_str());
  const std::vector<MeshMember> members{{NodeId{0}, "127.0.4.1", 7831}, {NodeId{1}, "127.0.4.2", 7831}};
  PlayedMember odd(another.path);
  std::optional<control::Listener> door;
  std::jthread others([&] {
    // The member accepts the first connection and closes it without sending any byte.
    const auto listen = [&] {
      return control::listen_on(*parse_address(members[1].host, members[1].port)).value();
    };
    auto first = listen();
    BOOST_TEST(failed_with(odd.dial(members[0]), Errc::authentication));
    for (pollfd come{first.get(), POLLIN, 0}; ::poll(&come, 1, -1) != 1;) {
    }
    static_cast<void>(Descriptor(::accept(first.get(), nullptr, nullptr)));
    door.emplace(odd.peers->adopt(std::move(first), {.channel = odd.peers->options()}).value());
  });
  const auto node = *Node::create({.id = NodeId{0},
                                   .address = Address::ipv4(127, 0, 4, 1, 0),
                                   .fabric = "udp",
                                   .context = make_context()});
  const auto connected = connect_mesh(*node, members, {.key_file = key.path, .timeout = seconds(600)});
  BOOST_TEST(failed_with(connected, Errc::authentication));
  BOOST_TEST((connected.error().what.find("node 1") != std::string::npos), connected.error().what);
}

BOOST_AUTO_TEST_CASE(whom_the_authority_has_signed_is_connected_and_another_is_refused_by_name) {
  const control::testing::Authority ours("ours"), theirs("theirs");
  const control::testing::CertificateFolder first, second, outsider;
  ours.issue(first.files());
  ours.issue(second.files());
  theirs.issue(outsider.files());
  ours.join(outsider.files());
  const auto options = [](const control::testing::CertificateFolder& folder, Duration timeout) {
    const control::CertificateFiles files = folder.files();
    return MeshOptions{.certificates = {files.certificate, files.private_key, files.authority},
                       .timeout = timeout};
  };
  Party party(2, 7804);
  party.join({options(first, seconds(30)), options(second, seconds(30))});
  for (const auto& result : party.results)
    BOOST_TEST(result.has_value(), (result ? "" : result.error().what));
  Party mixed(2, 7805);
  mixed.join({options(first, seconds(2)), options(outsider, seconds(2))});
  BOOST_TEST(!mixed.results[0].has_value());
  BOOST_TEST(!mixed.results[1].has_value());
  BOOST_TEST((failed_with(mixed.results[0], Errc::authentication) ||
              failed_with(mixed.results[1], Errc::authentication)));
}

BOOST_AUTO_TEST_CASE(another_job_that_listens_where_a_member_should_is_told_apart_and_goes_on_unharmed) {
  const auto place = [](std::uint32_t node, std::uint8_t host) {
    return MeshMember{NodeId{node}, host_string(Address::ipv4(127, 0, 4, host, 0)), 7806};
  };
  const auto join = [](std::vector<MeshMember> members, std::size_t self, const char* job) {
    const auto node = Node::create({.id = members[self].node,
                                    .address = *parse_address(members[self].host, 0),
                                    .fabric = "udp",
                                    .context = make_context()});
    return connect_mesh(**node, members, {.insecure = true, .job = job});
  };
  // Both jobs have a node 1 at 127.0.4.2. The node that runs there belongs to the first job. It only dials
  // node 0 of its job, which does not run yet.
  const std::vector ours{place(0, 1), place(1, 2)}, theirs{place(1, 2), place(2, 3)};
  Result<void> first, second;
  std::jthread waiting([&] { first = join(ours, 1, "64.0"); });
  BOOST_TEST(failed_with(join(theirs, 1, "128.0"), Errc::not_found));
  second = join(ours, 0, "64.0");
  waiting.join();
  for (const auto& result : {first, second})
    BOOST_TEST(result.has_value(), (result ? "" : result.error().what));
}

namespace {

/// Dials a member and opens a channel. Sends `says`, or closes the channel at once if `says` is empty. Then
/// waits until the peer has closed the channel. Returns false if no process listens for 10 seconds.
bool visit(control::ControlLoop& loop, const MeshMember& whom, std::vector<std::byte> says) {
  control::Connecting connecting;
  std::optional<control::Channel> channel;
  bool was_there = false;
  for (const Time end = monotonic_now() + seconds(10); !was_there && monotonic_now() < end;) {
    std::promise<bool> over;  // The value is false if no process listens yet.
    const auto on_channel = [&](Result<control::Channel> made) {
      if (!made) return over.set_value(false);
      channel.emplace(std::move(*made));
      channel->start([](const std::vector<std::byte>&) {}, [&](const Error&) { over.set_value(true); });
      if (says.empty() || !channel->send(says)) channel->close();
    };
    loop.call([&] {
      connecting = control::connect(loop, whom.host, whom.port, {.security = control::Insecure{}},
                                    seconds(30), on_channel);
    });
    was_there = over.get_future().get();
    loop.call([&] { channel.reset(); });
  }
  return was_there;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_process_that_dials_and_is_none_of_us_ends_nothing) {
  Party party(2, 7807);
  std::jthread first(
      [&] { party.results[1] = connect_mesh(*party.nodes[1], party.members, {.insecure = true}); });
  const auto loop = control::ControlLoop::create().value();
  const std::byte zero{0}, one{1};
  const std::vector<std::byte> nothing, cut{zero}, nonsense{one, one, one},
      too_early = encode(peer::Open{peer::ChannelId{1}, "mesh/1/", {}});
  for (const auto& says : {nothing, cut, nonsense, too_early})
    BOOST_TEST_REQUIRE(visit(*loop, party.members[1], says));
  party.results[0] = connect_mesh(*party.nodes[0], party.members, {.insecure = true});
  first.join();
  for (const auto& result : party.results)
    BOOST_TEST(result.has_value(), (result ? "" : result.error().what));
}

BOOST_AUTO_TEST_CASE(a_mesh_that_makes_no_sense_or_lacks_somebody_is_refused_by_name) {
  Party party(2, 7803);
  const auto join = [&](std::vector<MeshMember> members, const MeshOptions& options) {
    return connect_mesh(*party.nodes[0], members, options);
  };
  const MeshOptions open{.insecure = true, .timeout = milliseconds(300)};
  BOOST_TEST(failed_with(join({party.members[1]}, open), Errc::invalid_argument));
  BOOST_TEST(failed_with(join({party.members[0], party.members[1], party.members[1]}, open),
                         Errc::invalid_argument));
  BOOST_TEST(failed_with(join(party.members, {}), Errc::invalid_argument));
  BOOST_TEST(failed_with(join(party.members, {.key_file = "/no/such/key", .insecure = true}),
                         Errc::invalid_argument));
  BOOST_TEST(failed_with(join(party.members, {.key_file = "/no/such/key"}), Errc::not_found));
  auto encrypts = *Node::create({.id = NodeId{0}, .fabric = "udp", .encrypt = true});
  BOOST_TEST(failed_with(connect_mesh(*encrypts, party.members, open), Errc::invalid_argument));
  BOOST_TEST(failed_with(join(party.members, open), Errc::timed_out));
}

BOOST_AUTO_TEST_CASE(who_cannot_wait_for_a_mesh_is_refused_at_once) {
  Heard heard;
  const auto node_of = [](bool own_thread) {
    return *Node::create({.id = NodeId{0},
                          .address = Address::ipv4(127, 0, 4, 1, 0),
                          .fabric = "udp",
                          .context = make_context(),
                          .own_thread = own_thread});
  };
  const std::vector<MeshMember> members{{NodeId{0}, "127.0.4.1", 7832}, {NodeId{1}, "127.0.4.2", 7832}};
  const auto connect = [&](Node& node) { return connect_mesh(node, members, {.insecure = true}); };
  const auto driven = node_of(false), own = node_of(true);
  std::jthread([&] { BOOST_TEST(failed_with(connect(*driven), Errc::invalid_argument)); }).join();
  for (Node* const node : {driven.get(), own.get()}) {
    std::promise<Result<void>> in_upcall;
    GroupCallbacks callbacks;
    callbacks.stable = [&](std::uint64_t) { in_upcall.set_value(connect(*node)); };
    BOOST_TEST_REQUIRE(node->create_group(kGroup, {NodeId{0}}, NodeId{0}, {}, callbacks).has_value());
    BOOST_TEST_REQUIRE(node->send(kGroup, {}).has_value());
    auto result = in_upcall.get_future();
    while (node == driven.get() && result.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      BOOST_TEST_REQUIRE(node->poll(milliseconds(10)).has_value());
    BOOST_TEST(failed_with(result.get(), Errc::invalid_argument));
  }
}

BOOST_AUTO_TEST_CASE(a_node_without_a_thread_of_its_own_has_its_turns_while_the_mesh_is_made) {
  const auto node = [](std::uint32_t id) {
    const auto address = Address::ipv4(127, 0, 4, static_cast<std::uint8_t>(id + 1), 0);
    return *Node::create({.id = NodeId{id},
                          .address = address,
                          .fabric = "udp",
                          .context = make_context(),
                          .own_thread = false});
  };
  const std::vector<MeshMember> members{{NodeId{0}, "127.0.4.1", 7808}, {NodeId{1}, "127.0.4.2", 7808}};
  std::jthread other([&] {
    const auto second = node(1);
    const auto connected = connect_mesh(*second, members, {.insecure = true});
    BOOST_TEST(connected.has_value(), (connected ? "" : connected.error().what));
    BOOST_TEST(second->is_connected(NodeId{0}));
  });
  const auto first = node(0);
  const auto connected = connect_mesh(*first, members, {.insecure = true});
  BOOST_TEST(connected.has_value(), (connected ? "" : connected.error().what));
  BOOST_TEST(first->is_connected(NodeId{1}));
}

BOOST_AUTO_TEST_SUITE_END()
