#include "lib/socket/peering.hpp"

#include <openssl/crypto.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/connect/connector.hpp"
#include "dataplane/base/clock.hpp"
#include "lib/include/rdmc/socket.h"
#include "lib/socket/group_member.hpp"
#include "lib/socket/group_words.hpp"
#include "tests/lib/socket/two_stacks.hpp"

BOOST_AUTO_TEST_SUITE(peering_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

const control::ChannelOptions kPlain{.security = control::Insecure{}};

struct Kept {
  long descriptors = 0, shared_pages = 0;
};

/// A process without sockets. The test writes the messages on its control channels.
struct ByHand {
  std::unique_ptr<control::ControlLoop> loop = control::ControlLoop::create().value();
  std::shared_ptr<peer::Peers> peers = peer::Peers::create(*loop, kPlain).value();

  peer::Peer dial(const sockaddr_in& to) {
    std::promise<Result<peer::Peer>> found;
    const auto dialing =
        peers->dial("127.0.0.1", ntohs(to.sin_port), seconds(30),
                    [&](Result<peer::Peer> process) { found.set_value(std::move(process)); });
    return found.get_future().get().value();
  }
};

Answer connect(Stack& stack, int fd, const sockaddr_in& to) {
  return stack.connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

/// Makes the stack listen at the host address `host`. Returns the complete address.
sockaddr_in listen_on(Stack& stack, int fd, std::uint32_t host = INADDR_LOOPBACK) {
  sockaddr_in at = loopback();
  at.sin_addr.s_addr = htonl(host);
  socklen_t length = sizeof at;
  BOOST_REQUIRE(stack.bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at));
  BOOST_REQUIRE(stack.listen(fd, 16));
  BOOST_REQUIRE(stack.get_name(fd, reinterpret_cast<sockaddr*>(&at), &length, false));
  return at;
}

/// Waits until only one connection is left. The side that was dialed may not know yet that a surplus
/// connection has ended.
void wait_for_one_connection(Stack& stack) {
  const auto peers = stack.context().peers({.insecure = true}).value();
  while (peers->connections() != 1) std::this_thread::yield();
}

int group_socket(Stack& stack) {
  const int fd = TwoStacks::new_socket(stack, 0, SOCK_RDM);
  BOOST_REQUIRE(stack.set_option(fd, RDMC_SOL_SOCKET, RDMC_SO_GROUP, "news", 4));
  return fd;
}

std::vector<std::byte> word(GroupWordKind kind, std::optional<std::uint32_t> node = {},
                            std::string_view bytes = {}) {
  const auto said = bytes_of(bytes);
  return encode({.kind = kind, .node = node, .nodes = {}, .bytes = {said.begin(), said.end()}});
}

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

/// Returns the numbers of descriptors and of shared pages of this process.
Kept kept() {
  Kept now;
  now.descriptors = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  long other = 0;
  std::ifstream("/proc/self/statm") >> other >> other >> now.shared_pages;
  return now;
}

}  // namespace

BOOST_AUTO_TEST_CASE(peers_that_come_and_go_are_forgotten_with_their_descriptors_and_memory) {
  Stack client({.fabric = "shm", .insecure = true});
  const std::vector<std::byte> much(LanePool::kRingBytes);
  const auto meet_one = [&] {
    TwoStacks two("shm");
    const int fd = TwoStacks::new_socket(client);
    BOOST_REQUIRE(connect(client, fd, two.address));
    const auto theirs = two.server.accept(two.listener, nullptr, nullptr, 0);
    BOOST_REQUIRE(theirs);
    const auto at = static_cast<int>(*theirs);
    // After some sends, the bytes go through a lane and touch all of its memory.
    for (int i = 0; i < 6; ++i) {
      BOOST_REQUIRE(client.send(fd, much, 0) == much.size());
      BOOST_REQUIRE(receive_all(two.server, at, much.size()).size() == much.size());
    }
    two.server.end();
    std::byte byte;
    BOOST_TEST(client.receive(fd, {&byte, 1}, 0).value_or(0) == 0U);
    BOOST_REQUIRE(client.close(fd));
  };
  for (int i = 0; i < 4; ++i) meet_one();
  const Kept before = kept();
  constexpr long kPeers = 16;
  for (int i = 0; i < kPeers; ++i) meet_one();
  // The client notices the ends of its peers one after the other.
  const auto is_much_more = [&] {
    const Kept now = kept();
    return now.descriptors - before.descriptors >= kPeers / 2 ||
           (now.shared_pages - before.shared_pages) * 4096 >= kPeers / 2 * static_cast<long>(much.size());
  };
  const Time latest = monotonic_now() + seconds(30);
  while (is_much_more() && monotonic_now() < latest) std::this_thread::yield();
  BOOST_TEST(!is_much_more());
}

BOOST_AUTO_TEST_CASE(who_does_not_say_which_process_it_is_is_not_waited_for_by_either_side) {
  const auto loop = control::ControlLoop::create();
  BOOST_REQUIRE(loop);
  std::vector<control::Channel> silent;
  const auto listener = control::Listener::listen(
      **loop, Address::ipv4(127, 0, 0, 1, 0), {.channel = kPlain},
      {.on_channel = [&](control::Channel channel) { silent.push_back(std::move(channel)); },
       .on_refused = {}});
  BOOST_REQUIRE(listener);
  TwoStacks two("udp");
  Stack impatient({.fabric = "udp", .insecure = true, .introduction = milliseconds(50)});
  const auto to = loopback(listener->address().port);
  BOOST_TEST(
      (connect(impatient, TwoStacks::new_socket(impatient), to) == Answer(std::unexpected(ETIMEDOUT))));

  const auto streams = listen_on(impatient, TwoStacks::new_socket(impatient));
  const auto group = listen_on(impatient, group_socket(impatient));
  const std::vector<std::byte> nothing, hello(17, std::byte{1});
  for (const auto& [at, says] : {std::pair(streams, nothing), std::pair(streams, hello),
                                 std::pair(group, word(GroupWordKind::join, {}, "news"))}) {
    std::promise<void> dropped;
    std::optional<control::Channel> outsider;  // Must be used on the control loop.
    const auto attempt = control::connect(
        **loop, "127.0.0.1", ntohs(at.sin_port), kPlain, seconds(30), [&](Result<control::Channel> channel) {
          if (!channel) return;
          outsider.emplace(std::move(*channel));
          outsider->start([](const auto&) {}, [&](const Error&) { dropped.set_value(); });
          if (!says.empty()) (void)outsider->send(says);
        });
    BOOST_TEST((dropped.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready));
    (*loop)->call([&] { outsider.reset(); });
  }
  (*loop)->call([&] { silent.clear(); });

  // This caller names its process, and then does not name a group.
  ByHand undecided;
  auto process = undecided.dial(group);
  const std::string where = "127.0.0.1:" + std::to_string(ntohs(group.sin_port));
  const auto greeting = bytes_of(where);
  std::promise<void> dropped;
  std::optional<control::Channel> caller;
  undecided.loop->call([&] {
    process.open(GroupMember::kService, {.greeting = {greeting.begin(), greeting.end()}, .blob = {}},
                 [&](Result<control::Channel> channel, const peer::Offer&) {
                   caller.emplace(std::move(channel.value()));
                   caller->start([](const auto&) {}, [&](const Error&) { dropped.set_value(); });
                 });
  });
  BOOST_TEST((dropped.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready));
  undecided.loop->call([&] { caller.reset(); });
}

BOOST_AUTO_TEST_CASE(a_root_that_names_members_without_end_is_left) {
  ByHand root;
  std::vector<control::Channel> callers;
  const auto service = root.peers->serve(GroupMember::kService, [&](peer::Request request) {
    callers.push_back(request.accept({}).value());
    callers.back().start(
        [&](const auto& message) {
          if (decode_group_word(message)->kind != GroupWordKind::join) return;
          (void)callers.back().send(word(GroupWordKind::welcome, 1));
          for (std::uint32_t node = 2; node < 1000; ++node)
            (void)callers.back().send(word(GroupWordKind::peer, node));
        },
        [](const Error&) {});
  });
  const auto listener = root.peers->listen(Address::ipv4(127, 0, 0, 1, 0), {.channel = kPlain}).value();
  Stack member({.fabric = "udp", .insecure = true});
  BOOST_TEST((connect(member, group_socket(member), loopback(listener.address().port)) ==
              Answer(std::unexpected(EPROTO))));
  root.loop->call([&] { callers.clear(); });
}

BOOST_AUTO_TEST_CASE(the_addresses_of_loopback_have_one_engine_between_them) {
  Stack server({.fabric = "udp", .insecure = true});
  const int listener = TwoStacks::new_socket(server);
  sockaddr_in at = listen_on(server, listener, INADDR_ANY);
  std::ptrdiff_t most = 0;
  for (std::uint32_t host = 0; host < 8; ++host) {
    Stack client({.fabric = "udp", .insecure = true});
    const int fd = TwoStacks::new_socket(client);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + host);
    BOOST_REQUIRE(connect(client, fd, at));
    const auto accepted = server.accept(listener, nullptr, nullptr, 0);
    BOOST_REQUIRE(accepted);
    BOOST_REQUIRE(client.send(fd, bytes_of("well"), 0));
    BOOST_TEST(receive_all(server, static_cast<int>(*accepted), 4) == "well");
    if (host == 0) most = threads();
    BOOST_TEST(threads() <= most);
  }
}

BOOST_AUTO_TEST_CASE(nobody_is_inside_of_tls_while_the_process_forks) {
  static std::atomic<int> inside = 0;
  static std::atomic<bool> has_begun = false;
  // OpenSSL calls the function on the control loop when a connection begins.
  const int index = CRYPTO_get_ex_new_index(
      CRYPTO_EX_INDEX_SSL, 0, nullptr,
      [](void*, void*, CRYPTO_EX_DATA*, int, long, void*) {
        ++inside, has_begun = true;
        has_begun.notify_all();
        for (const Time end = monotonic_now() + milliseconds(20); monotonic_now() < end;)
          std::this_thread::yield();
        --inside;
      },
      nullptr, nullptr);
  BOOST_REQUIRE(index >= 0);
  const auto key = std::filesystem::temp_directory_path() / ("rdmc-fork-key." + std::to_string(::getpid()));
  BOOST_REQUIRE(control::ClusterKey::generate()->write(key));
  {
    Stack server({.fabric = "udp", .key_file = key});
    const auto at = listen_on(server, TwoStacks::new_socket(server));
    for (int i = 0; i < 3; ++i) {
      has_begun = false;
      Stack client({.fabric = "udp", .key_file = key});
      const int fd = TwoStacks::new_socket(client, SOCK_NONBLOCK);
      (void)connect(client, fd, at);
      has_begun.wait(false);
      client.before_fork();
      server.before_fork();
      BOOST_TEST(inside == 0);
      server.after_fork();
      client.after_fork();
    }
  }
  CRYPTO_free_ex_index(CRYPTO_EX_INDEX_SSL, index);
  std::filesystem::remove(key);
}

BOOST_AUTO_TEST_CASE(who_says_that_it_is_another_process_is_not_reached_in_its_place) {
  TwoStacks two("udp");
  Stack behind({.fabric = "udp", .insecure = true});
  const auto loop = control::ControlLoop::create();
  BOOST_REQUIRE(loop);
  const peer::Identity name = ByHand().dial(two.address).identity();
  std::vector<control::Connecting> attempts;
  const auto dial = [&](const sockaddr_in& at, auto done) {
    attempts.push_back(
        control::connect(**loop, "127.0.0.1", ntohs(at.sin_port), kPlain, seconds(30),
                         [done](Result<control::Channel> channel) { done(std::move(*channel)); }));
  };
  // This process forwards its channel to another process, and claims to have the identity of the server.
  std::optional<control::Channel> near, far;
  const auto at = listen_on(behind, TwoStacks::new_socket(behind));
  const auto listener = control::Listener::listen(
      **loop, Address::ipv4(127, 0, 0, 1, 0), {.channel = kPlain},
      {.on_channel =
           [&](control::Channel channel) {
             near.emplace(std::move(channel));
             dial(at, [&](control::Channel onward) {
               far.emplace(std::move(onward));
               far->start(
                   [&](auto message) {
                     auto said = peer::decode(message).value();
                     if (auto* const hello = std::get_if<peer::Hello>(&said)) hello->identity = name;
                     (void)near->send(encode(said));
                   },
                   [](const Error&) {});
               near->start([&](const auto& message) { (void)far->send(message); }, [](const Error&) {});
             });
           },
       .on_refused = {}});
  BOOST_REQUIRE(listener);
  BOOST_TEST((connect(two.client, TwoStacks::new_socket(two.client), loopback(listener->address().port)) ==
              // The refusal arrives over a trunk.
              Answer(std::unexpected(ECONNREFUSED))));
  const auto [ours, theirs] = two.pair();
  BOOST_REQUIRE(two.client.send(ours, bytes_of("well"), 0));
  BOOST_TEST(receive_all(two.server, theirs, 4) == "well");
  (*loop)->call([&] { near.reset(), far.reset(); });
}

BOOST_AUTO_TEST_CASE(many_addresses_of_one_process_at_once_are_all_reached) {
  TwoStacks two("udp");
  std::vector<pollfd> all;
  for (int i = 0; i < 12; ++i) {
    two.listen(TwoStacks::new_socket(two.server));
    all.push_back({.fd = TwoStacks::new_socket(two.client, SOCK_NONBLOCK), .events = POLLOUT, .revents = 0});
    BOOST_TEST((two.connect(all.back().fd) == Answer(std::unexpected(EINPROGRESS))));
  }
  for (pollfd& each : all) {
    BOOST_REQUIRE(two.client.poll({&each, 1}, 30'000));
    BOOST_TEST((each.revents == POLLOUT && two.connect(each.fd)));
  }
}

namespace {

/// Forwards the messages between two control channels, but removes the proofs. With these proofs, the process
/// behind the proxy shows that it already knows the dialer. So the dialer concludes that it has no connection
/// to this process yet.
class ForgetfulProxy {
 public:
  ForgetfulProxy(control::ControlLoop& loop, const sockaddr_in& to)
      : loop_(loop),
        listener_(control::Listener::listen(loop, Address::ipv4(127, 0, 0, 1, 0), {.channel = kPlain},
                                            {.on_channel =
                                                 [this, port = ntohs(to.sin_port)](control::Channel channel) {
                                                   near_.emplace(std::move(channel));
                                                   attempt_ = control::connect(
                                                       loop_, "127.0.0.1", port, kPlain, seconds(30),
                                                       [this](Result<control::Channel> onward) {
                                                         if (onward) join(std::move(*onward));
                                                       });
                                                 },
                                             .on_refused = {}})) {
    BOOST_REQUIRE(listener_);
  }
  ~ForgetfulProxy() {
    loop_.call([this] { attempt_ = {}, near_.reset(), far_.reset(); });
  }
  ForgetfulProxy(const ForgetfulProxy&) = delete;
  ForgetfulProxy& operator=(const ForgetfulProxy&) = delete;

  sockaddr_in address() const { return loopback(listener_->address().port); }

 private:
  void join(control::Channel onward) {
    far_.emplace(std::move(onward));
    far_->start(
        [this](const std::vector<std::byte>& message) {
          auto said = peer::decode(message).value();
          if (auto* const hello = std::get_if<peer::Hello>(&said)) hello->proofs.clear();
          if (auto* const choice = std::get_if<peer::Choice>(&said)) choice->proof.reset();
          (void)near_->send(encode(said));
        },
        [this](const Error&) { near_->close(); });
    near_->start([this](std::vector<std::byte> message) { (void)far_->send(std::move(message)); },
                 [this](const Error&) { far_->close(); });
  }

  control::ControlLoop& loop_;
  std::optional<control::Channel> near_, far_;
  control::Connecting attempt_;
  Result<control::Listener> listener_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_process_that_dials_again_and_again_has_four_trunks_and_no_more) {
  TwoStacks two("udp");
  const auto loop = control::ControlLoop::create();
  BOOST_REQUIRE(loop);
  std::vector<std::unique_ptr<ForgetfulProxy>> proxies;
  const auto dial = [&] {
    proxies.push_back(std::make_unique<ForgetfulProxy>(**loop, two.address));
    return connect(two.client, TwoStacks::new_socket(two.client), proxies.back()->address());
  };
  const auto [ours, theirs] = two.pair();  // uses the first trunk
  // The server refuses over the new trunk, because no socket listens at the proxy's address.
  for (int i = 1; i < 4; ++i) BOOST_TEST((dial() == Answer(std::unexpected(ECONNREFUSED))));
  BOOST_TEST((dial() == Answer(std::unexpected(ECONNABORTED))));
  BOOST_REQUIRE(two.client.send(ours, bytes_of("well"), 0));
  BOOST_TEST(receive_all(two.server, theirs, 4) == "well");
}

BOOST_AUTO_TEST_CASE(a_peer_is_of_this_host_over_loopback_or_at_an_address_of_ours) {
  const auto host = [](std::uint8_t last, std::uint16_t port) { return Address::ipv4(10, 0, 0, last, port); };
  BOOST_TEST(is_on_this_host(Address::ipv4(127, 0, 0, 1, 1), Address::ipv4(127, 0, 4, 2, 2)));
  BOOST_TEST(is_on_this_host(host(1, 7700), host(1, 50000)));
  BOOST_TEST(!is_on_this_host(host(1, 7700), host(2, 7700)));
}

BOOST_AUTO_TEST_CASE(a_peer_of_another_host_finds_nobody_at_our_loopback_addresses) {
  struct Nobody final : Opens {
    bool on_open(const Asked&, const std::shared_ptr<Stream>&) override { return false; }
  } nobody;
  Stack stack({.fabric = "udp", .insecure = true});
  const auto at = listen_on(stack, TwoStacks::new_socket(stack));
  for (const bool elsewhere : {false, true}) {
    const auto theirs = std::make_shared<Mux>(nobody, true),
               ours = std::make_shared<Mux>(stack.opens(), false);
    if (elsewhere) ours->set_elsewhere();
    const auto stream = std::make_shared<Stream>(ConnectionKind::bytes);
    stream->connect();
    theirs->open(stream, Address::ipv4(10, 0, 0, 2, 5), Address::ipv4(127, 0, 0, 1, ntohs(at.sin_port)));
    std::vector<std::byte> frame(4096);
    frame.resize(theirs->fill(frame));
    BOOST_TEST(ours->on_frame(frame).has_value());
    BOOST_TEST(ours->size() == (elsewhere ? 0U : 1U));
    ours->lose(ECONNRESET);
    theirs->lose(ECONNRESET);
  }
}

BOOST_AUTO_TEST_CASE(two_processes_with_many_connections_have_one_trunk_whichever_connection_a_dial_finds) {
  TwoStacks two("udp");
  (void)two.pair();
  const auto loop = control::ControlLoop::create().value();
  const auto peers = two.client.context().peers({.insecure = true}).value();
  std::vector<std::unique_ptr<ForgetfulProxy>> proxies;
  std::vector<peer::Peer> kept;
  for (int i = 0; i < 8; ++i) {
    proxies.push_back(std::make_unique<ForgetfulProxy>(*loop, two.address));
    std::promise<Result<peer::Peer>> found;
    const auto dialing =
        peers->dial("127.0.0.1", ntohs(proxies.back()->address().sin_port), seconds(30),
                    [&](Result<peer::Peer> process) { found.set_value(std::move(process)); });
    kept.push_back(found.get_future().get().value());
    // This address was not dialed before.
    two.listen(TwoStacks::new_socket(two.server));
    BOOST_TEST((two.connect(TwoStacks::new_socket(two.client)) == Answer(0)));
  }
  BOOST_TEST(peers->connections() == 1 + kept.size());
  for (Stack* const stack : {&two.client, &two.server}) BOOST_TEST(stack->trunks() == 1U);
  kept.clear();
}

BOOST_AUTO_TEST_CASE(two_processes_have_one_trunk_for_the_sockets_of_both_directions) {
  TwoStacks two("udp");
  (void)two.pair();
  const auto back = listen_on(two.client, TwoStacks::new_socket(two.client));
  for (int i = 0; i < 3; ++i)
    BOOST_TEST((connect(two.server, TwoStacks::new_socket(two.server), back) == Answer(0)));
  for (Stack* const stack : {&two.client, &two.server}) {
    wait_for_one_connection(*stack);
    BOOST_TEST(stack->trunks() == 1U);
  }
}

// This can happen with a NIC, which acknowledges on behalf of its process. The control loop may learn of the
// peer's end before the fabric thread has handled the bytes that the peer sent earlier.
BOOST_AUTO_TEST_CASE(what_a_peer_has_said_is_heard_although_its_end_is_known_first) {
  const std::string last_words(10'000, 'w');
  TwoStacks two("udp");
  const auto [ours, theirs] = two.pair();
  const auto thread = two.server.context()
                          .fabric_thread({.fabric = "udp", .address = Address::ipv4(127, 0, 0, 1, 0)})
                          .value();
  std::promise<void> stands, goes_on;
  BOOST_TEST_REQUIRE(thread
                         ->post([&] {
                           stands.set_value();
                           goes_on.get_future().wait();
                         })
                         .has_value());
  stands.get_future().wait();
  BOOST_TEST((two.client.send(ours, bytes_of(last_words), 0) == Answer(last_words.size())));
  two.client.end();
  // If this takes too long, the time limit of the test ends it.
  while (two.server.trunks() != 0) std::this_thread::yield();
  goes_on.set_value();
  BOOST_TEST(receive_all(two.server, theirs) == last_words);
}

BOOST_AUTO_TEST_CASE(two_processes_that_connect_to_each_other_at_once_find_each_other) {
  for (int round = 0; round < 20; ++round) {
    TwoStacks two("udp");
    const auto back = listen_on(two.client, TwoStacks::new_socket(two.client));
    // In every second round, a connection exists already, and both sides request a trunk on it.
    std::promise<Result<peer::Peer>> found;
    const auto peers = two.client.context().peers({.insecure = true}).value();
    const auto dialing =
        peers->dial("127.0.0.1", ntohs(two.address.sin_port), seconds(30),
                    [&](Result<peer::Peer> process) { found.set_value(std::move(process)); });
    if (round % 2 == 0) (void)found.get_future().get();
    std::jthread other([&] {
      for (int i = 0; i < 3; ++i)
        BOOST_TEST((connect(two.server, TwoStacks::new_socket(two.server), back) == Answer(0)));
    });
    for (int i = 0; i < 3; ++i) BOOST_TEST((two.connect(TwoStacks::new_socket(two.client)) == Answer(0)));
    other.join();
    for (Stack* const stack : {&two.client, &two.server}) {
      BOOST_TEST(stack->trunks() == 1U);
      wait_for_one_connection(*stack);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
