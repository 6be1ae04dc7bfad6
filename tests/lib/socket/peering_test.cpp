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
#include "dataplane/base/clock.hpp"
#include "lib/include/rdmc/socket.h"
#include "lib/socket/group_words.hpp"
#include "tests/lib/socket/two_stacks.hpp"

BOOST_AUTO_TEST_SUITE(peering_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

const control::ChannelOptions kPlain{.security = control::Insecure{}, .max_message_bytes = 4096};

struct Kept {
  long descriptors = 0, shared_pages = 0;
};

Answer connect(Stack& stack, int fd, const sockaddr_in& to) {
  return stack.connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

/// The stack listens at loopback from now on, and where.
sockaddr_in listen_on(Stack& stack, int fd, std::uint32_t host = INADDR_LOOPBACK) {
  sockaddr_in at = loopback();
  at.sin_addr.s_addr = htonl(host);
  socklen_t length = sizeof at;
  BOOST_REQUIRE(stack.bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at));
  BOOST_REQUIRE(stack.listen(fd, 16));
  BOOST_REQUIRE(stack.get_name(fd, reinterpret_cast<sockaddr*>(&at), &length, false));
  return at;
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

/// Of this process.
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
    for (int i = 0; i < 6; ++i) {  // by and by in a lane, all of which is touched
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
  // The client hears of deaths by and by.
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
  for (const auto& [at, says] :
       {std::pair(streams, nothing), std::pair(streams, hello), std::pair(group, nothing),
        std::pair(group, word(GroupWordKind::join, {}, "news"))}) {
    std::promise<void> dropped;
    std::optional<control::Channel> stranger;  // the loop's
    const auto attempt = control::connect(
        **loop, "127.0.0.1", ntohs(at.sin_port), kPlain, seconds(30), [&](Result<control::Channel> channel) {
          if (!channel) return;
          stranger.emplace(std::move(*channel));
          stranger->start([](const auto&) {}, [&](const Error&) { dropped.set_value(); });
          if (!says.empty()) (void)stranger->send(says);
        });
    BOOST_TEST((dropped.get_future().wait_for(std::chrono::seconds(30)) == std::future_status::ready));
    (*loop)->call([&] { stranger.reset(); });
  }
  (*loop)->call([&] { silent.clear(); });
}

BOOST_AUTO_TEST_CASE(a_root_that_names_members_without_end_is_left) {
  const auto loop = control::ControlLoop::create();
  BOOST_REQUIRE(loop);
  std::vector<control::Channel> callers;
  const auto listener =
      control::Listener::listen(**loop, Address::ipv4(127, 0, 0, 1, 0), {.channel = kPlain},
                                {.on_channel =
                                     [&](control::Channel channel) {
                                       callers.push_back(std::move(channel));
                                       callers.back().start(
                                           [&](const auto& message) {
                                             if (decode_group_word(message)->kind != GroupWordKind::join)
                                               return;
                                             (void)callers.back().send(word(GroupWordKind::welcome, 1));
                                             for (std::uint32_t node = 2; node < 1000; ++node)
                                               (void)callers.back().send(word(GroupWordKind::peer, node));
                                           },
                                           [](const Error&) {});
                                     },
                                 .on_refused = {}});
  BOOST_REQUIRE(listener);
  Stack member({.fabric = "udp", .insecure = true});
  BOOST_TEST((connect(member, group_socket(member), loopback(listener->address().port)) ==
              Answer(std::unexpected(EPROTO))));
  (*loop)->call([&] { callers.clear(); });
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
  // OpenSSL calls it on the loop, as a connection begins.
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
  // The server says its name to whoever dials.
  std::promise<std::vector<std::byte>> said;
  std::vector<control::Channel> channels;
  std::vector<control::Connecting> attempts;
  const auto dial = [&](const sockaddr_in& at, auto done) {
    attempts.push_back(
        control::connect(**loop, "127.0.0.1", ntohs(at.sin_port), kPlain, seconds(30),
                         [done](Result<control::Channel> channel) { done(std::move(*channel)); }));
  };
  dial(two.address, [&](control::Channel channel) {
    channels.push_back(std::move(channel));
    channels.back().start([&](const auto& message) { said.set_value(message); }, [](const Error&) {});
    (void)channels.back().send(std::vector<std::byte>(17, std::byte{1}));
  });
  const auto name = said.get_future().get();
  // One whose trunk ends at another process, and that takes the server's name.
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
                     if (message[0] == std::byte{1}) std::ranges::copy(name, message.begin());
                     (void)near->send(message);
                   },
                   [](const Error&) {});
               near->start([&](const auto& message) { (void)far->send(message); }, [](const Error&) {});
             });
           },
       .on_refused = {}});
  BOOST_REQUIRE(listener);
  BOOST_TEST((connect(two.client, TwoStacks::new_socket(two.client), loopback(listener->address().port)) ==
              Answer(std::unexpected(ECONNREFUSED))));  // over a trunk
  const auto [ours, theirs] = two.pair();
  BOOST_REQUIRE(two.client.send(ours, bytes_of("well"), 0));
  BOOST_TEST(receive_all(two.server, theirs, 4) == "well");
  (*loop)->call([&] { channels.clear(), near.reset(), far.reset(); });
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

BOOST_AUTO_TEST_SUITE_END()
