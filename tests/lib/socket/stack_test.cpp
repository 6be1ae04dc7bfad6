#include "lib/socket/stack.hpp"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/epoll.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <future>
#include <random>
#include <thread>

#include "lib/include/rdmc/socket.h"
#include "tests/lib/socket/two_stacks.hpp"

BOOST_AUTO_TEST_SUITE(stack_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

const auto kFabrics = boost::unit_test::data::make({"udp", "shm"});

std::string rubbish(std::size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(bytes));
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

}  // namespace

BOOST_DATA_TEST_CASE(a_stream_goes_both_ways_between_two_processes_and_ends, kFabrics, fabric) {
  TwoStacks two(fabric);
  const auto [ours, theirs] = two.pair();
  const std::string up = rubbish(3'000'000), down = rubbish(2'000'001);
  auto answer = std::async(std::launch::async, [&] {
    const std::string got = receive_all(two.server, theirs);
    BOOST_REQUIRE(two.server.send(theirs, bytes_of(down), 0) == down.size());
    BOOST_REQUIRE(two.server.close(theirs));
    return got;
  });
  BOOST_REQUIRE(two.client.send(ours, bytes_of(up), 0) == up.size());
  BOOST_REQUIRE(two.client.shutdown(ours, SHUT_WR));
  BOOST_TEST((receive_all(two.client, ours) == down));
  BOOST_TEST((answer.get() == up));

  char name[32];
  socklen_t length = sizeof name;
  const auto [again, end] = two.pair();
  BOOST_REQUIRE(two.client.get_option(again, RDMC_SOL_SOCKET, RDMC_SO_FABRIC, name, &length));
  BOOST_TEST(std::string_view(name) == fabric);
}

BOOST_DATA_TEST_CASE(messages_keep_their_boundaries_however_long_or_short, kFabrics, fabric) {
  TwoStacks two(fabric, SOCK_SEQPACKET);
  const auto [ours, theirs] = two.pair();
  const std::string longer = rubbish(3 * Stream::kWindowBytes), shorter = rubbish(100);
  auto sent = std::async(std::launch::async, [&, to = ours] {
    for (const std::string& message : {longer, shorter, std::string(), shorter})
      BOOST_REQUIRE((two.client.send(to, bytes_of(message), 0) == Answer(message.size())));
    BOOST_REQUIRE(two.client.close(to));
  });
  std::vector<std::byte> room(longer.size() + 1);
  int said = 0;
  const auto receive = [&, at = theirs](std::size_t most, int flags) {
    said = -1;
    const auto got = two.server.receive(at, std::span(room).first(most), flags, &said);
    BOOST_REQUIRE(got);
    return *got;
  };
  BOOST_TEST(receive(room.size(), MSG_WAITALL) == longer.size());
  BOOST_TEST(std::ranges::equal(std::span(room).first(longer.size()), bytes_of(longer)));
  BOOST_TEST(said == MSG_EOR);
  BOOST_TEST((receive(10, MSG_TRUNC | MSG_PEEK) == 100U && said == MSG_TRUNC));
  BOOST_TEST((receive(10, 0) == 10U && said == MSG_TRUNC));
  BOOST_TEST((receive(10, 0) == 0U && said == MSG_EOR));  // this is an empty message
  BOOST_TEST((receive(200, 0) == 100U && said == MSG_EOR));
  BOOST_TEST((receive(10, 0) == 0U && said == 0));  // this is the end
  sent.get();
  // The listener must refuse a socket of another type.
  BOOST_TEST((two.connect(TwoStacks::new_socket(two.client)) == Answer(std::unexpected(ECONNREFUSED))));
}

BOOST_AUTO_TEST_CASE(both_ends_have_the_same_names_of_each_other) {
  TwoStacks two("udp");
  const auto [ours, theirs] = two.pair();
  const auto name = [](Stack& stack, int fd, bool of_peer) {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    BOOST_REQUIRE(stack.get_name(fd, reinterpret_cast<sockaddr*>(&address), &length, of_peer));
    return std::pair(ntohl(address.sin_addr.s_addr), ntohs(address.sin_port));
  };
  BOOST_TEST((name(two.client, ours, false) == name(two.server, theirs, true)));
  BOOST_TEST((name(two.client, ours, true) == name(two.server, theirs, false)));
  BOOST_TEST(name(two.client, ours, true).second == ntohs(two.address.sin_port));
}

BOOST_AUTO_TEST_CASE(hundreds_of_connections_share_one_trunk_and_each_keeps_its_own_bytes) {
  TwoStacks two("udp");
  std::vector<std::pair<int, int>> pairs;
  for (int i = 0; i < 400; ++i) pairs.push_back(two.pair());
  for (std::size_t i = 0; i < pairs.size(); ++i)
    BOOST_REQUIRE(two.client.send(pairs[i].first, bytes_of(std::to_string(i)), 0));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto text = std::to_string(i);
    BOOST_REQUIRE((receive_all(two.server, pairs[i].second, text.size()) == text));
    BOOST_REQUIRE(two.client.close(pairs[i].first));
    BOOST_REQUIRE(receive_all(two.server, pairs[i].second).empty());
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_ends_resets_its_connections_and_then_refuses) {
  auto server = std::make_unique<TwoStacks>("udp");
  Stack client({.fabric = "udp", .insecure = true});
  const auto to = server->address;
  const auto connect = [&](int fd) {
    return client.connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  };
  const int fd = TwoStacks::new_socket(client), other = TwoStacks::new_socket(client);
  BOOST_REQUIRE((connect(fd) && connect(other)));
  BOOST_REQUIRE(server->server.accept(server->listener, nullptr, nullptr, 0));
  // The second connection is never accepted. The first one ends when its process ends.
  server.reset();
  std::byte byte;
  BOOST_TEST((client.receive(fd, {&byte, 1}, 0) == Answer(0)));
  BOOST_TEST((client.receive(other, {&byte, 1}, 0) == Answer(std::unexpected(ECONNRESET))));
  BOOST_TEST((connect(TwoStacks::new_socket(client)) == Answer(std::unexpected(ECONNREFUSED))));
}

BOOST_AUTO_TEST_CASE(a_known_address_where_another_process_listens_by_now_is_found_anew) {
  TwoStacks two("udp");
  two.pair();
  const auto at = two.address;
  const int keeps = TwoStacks::new_socket(two.server);
  two.listen(keeps);  // the process continues to exist, and listens at another address
  BOOST_REQUIRE(two.server.close(two.listener));
  const auto connect = [&] {
    const int fd = TwoStacks::new_socket(two.client);
    return two.client.connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at);
  };
  BOOST_TEST((connect() == Answer(std::unexpected(ECONNREFUSED))));

  Stack successor({.fabric = "udp", .insecure = true});
  const int listener = TwoStacks::new_socket(successor);
  const int on = 1;
  BOOST_REQUIRE(successor.set_option(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
  BOOST_REQUIRE(successor.bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at));
  BOOST_REQUIRE(successor.listen(listener, 1));
  BOOST_TEST(connect().has_value());
}

BOOST_AUTO_TEST_CASE(without_blocking_a_connection_is_under_way_and_epoll_tells_when_it_is_there) {
  TwoStacks two("udp");
  const int fd = TwoStacks::new_socket(two.client, SOCK_NONBLOCK);
  BOOST_TEST((two.connect(fd) == Answer(std::unexpected(EINPROGRESS))));
  BOOST_TEST((two.client.pollfd_of(fd) == Answer(fd)));
  const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  const auto watch = [&](int which, unsigned events) {
    epoll_event event{.events = events, .data = {.fd = which}};
    BOOST_REQUIRE(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, which, &event) == 0);
  };
  const auto wait = [&](int patience_ms) {
    epoll_event event{};
    return ::epoll_wait(epoll.get(), &event, 1, patience_ms) == 1 ? event.events : 0U;
  };
  watch(fd, EPOLLOUT | EPOLLIN | EPOLLRDHUP);
  BOOST_TEST(wait(10'000) == EPOLLOUT);
  BOOST_TEST(two.connect(fd).has_value());
  const int end = static_cast<int>(two.server.accept(two.listener, nullptr, nullptr, 0).value());
  std::byte byte{1};
  BOOST_TEST((two.client.receive(fd, {&byte, 1}, 0) == Answer(std::unexpected(EAGAIN))));
  // The first send fills the window of the peer. The second send fills the send buffer of the local side.
  std::vector<std::byte> all(Stream::kWindowBytes);
  static_assert(Stream::kWindowBytes == Stream::kSendBytes);
  BOOST_REQUIRE((two.client.send(fd, all, 0) == Answer(all.size())));
  while (two.server.receive(end, all, MSG_PEEK) != Answer(all.size())) std::this_thread::yield();
  BOOST_TEST(wait(0) == EPOLLOUT);
  BOOST_REQUIRE((two.client.send(fd, all, 0) == Answer(all.size())));
  BOOST_TEST((two.client.send(fd, all, 0) == Answer(std::unexpected(EAGAIN))));
  BOOST_TEST(wait(0) == 0U);
  BOOST_REQUIRE(two.server.send(end, {&byte, 1}, 0));
  BOOST_TEST(wait(10'000) == EPOLLIN);
  BOOST_TEST((two.client.receive(fd, {&byte, 1}, 0) == Answer(1)));
  BOOST_TEST(wait(0) == 0U);
  auto reader = std::async(std::launch::async, [&] { return receive_all(two.server, end).size(); });
  BOOST_TEST(wait(10'000) == EPOLLOUT);
  BOOST_REQUIRE(two.client.close(fd));
  BOOST_TEST(reader.get() > 0U);
}

BOOST_AUTO_TEST_CASE(who_gives_up_while_it_connects_and_tries_again_is_connected_once) {
  TwoStacks two("udp");
  const int fd = TwoStacks::new_socket(two.client, SOCK_NONBLOCK);
  BOOST_TEST((two.connect(fd) == Answer(std::unexpected(EINPROGRESS))));
  BOOST_TEST((two.client.shutdown(fd, SHUT_RDWR) == Answer(0)));
  (void)two.connect(fd);
  while (two.connect(fd) == Answer(std::unexpected(EALREADY))) std::this_thread::yield();
  // Its accept returns the connection of `fd`, because this connection is older.
  const auto [ours, theirs] = two.pair();
  sockaddr_in name{}, peer{};
  socklen_t length = sizeof name;
  BOOST_REQUIRE(two.client.get_name(fd, reinterpret_cast<sockaddr*>(&name), &length, false));
  BOOST_REQUIRE(two.server.get_name(theirs, reinterpret_cast<sockaddr*>(&peer), &length, true));
  BOOST_TEST(name.sin_port == peer.sin_port);
  const auto next = two.server.accept(two.listener, nullptr, nullptr, 0);
  BOOST_REQUIRE(next);
  BOOST_REQUIRE(two.client.get_name(ours, reinterpret_cast<sockaddr*>(&name), &length, false));
  BOOST_REQUIRE(
      two.server.get_name(static_cast<int>(*next), reinterpret_cast<sockaddr*>(&peer), &length, true));
  BOOST_TEST(name.sin_port == peer.sin_port);
}

BOOST_AUTO_TEST_CASE(poll_waits_for_sockets_of_ours_and_of_the_kernels_together) {
  TwoStacks two("udp");
  const auto [ours, theirs] = two.pair();
  std::array<int, 2> pipe;
  BOOST_REQUIRE(::pipe(pipe.data()) == 0);
  std::array<pollfd, 3> all{
      {{.fd = theirs, .events = POLLIN}, {.fd = pipe[0], .events = POLLIN}, {.fd = -1}}};
  BOOST_TEST((two.server.poll(all, 0) == Answer(0)));
  BOOST_TEST(::write(pipe[1], "x", 1) == 1);
  BOOST_TEST((two.server.poll(all, -1) == Answer(1)));
  BOOST_TEST((all[0].revents == 0 && all[1].revents == POLLIN));
  all[1].fd = -1;
  auto sent =
      std::async(std::launch::async, [&, to = ours] { return two.client.send(to, bytes_of("y"), 0); });
  BOOST_TEST((two.server.poll(all, -1) == Answer(1)));
  BOOST_TEST(all[0].revents == POLLIN);
  BOOST_TEST(sent.get().has_value());
  for (const int end : pipe) ::close(end);
}

BOOST_AUTO_TEST_CASE(io_uring_is_told_when_a_socket_can_be_read_beside_others) {
  TwoStacks two("udp");
  const auto [ours, theirs] = two.pair();
  std::array<int, 2> pipe;
  io_uring ring;
  BOOST_REQUIRE((::pipe(pipe.data()) == 0 && ::io_uring_queue_init(4, &ring, 0) == 0));
  BOOST_REQUIRE(two.server.pollfd_of(theirs));
  for (const int fd : {theirs, pipe[0]}) {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring);
    ::io_uring_prep_poll_add(entry, fd, POLLIN);
    ::io_uring_sqe_set_data64(entry, static_cast<std::uint64_t>(fd));
  }
  BOOST_REQUIRE(::io_uring_submit(&ring) == 2);
  const auto next = [&] {
    io_uring_cqe* done = nullptr;
    BOOST_REQUIRE(::io_uring_wait_cqe(&ring, &done) == 0);
    BOOST_TEST((done->res & POLLIN) != 0);
    const auto fd = static_cast<int>(done->user_data);
    ::io_uring_cqe_seen(&ring, done);
    return fd;
  };
  BOOST_REQUIRE(two.client.send(ours, bytes_of("x"), 0));
  BOOST_TEST(next() == theirs);
  BOOST_REQUIRE(::write(pipe[1], "y", 1) == 1);
  BOOST_TEST(next() == pipe[0]);
  ::io_uring_queue_exit(&ring);
  for (const int end : pipe) ::close(end);
}

BOOST_AUTO_TEST_CASE(a_timeout_ends_a_wait) {
  TwoStacks two("udp");
  const auto [ours, theirs] = two.pair();
  const timeval soon{.tv_usec = 1000};
  BOOST_REQUIRE(two.client.set_option(ours, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
  std::byte byte;
  BOOST_TEST((two.client.receive(ours, {&byte, 1}, 0) == Answer(std::unexpected(EAGAIN))));
}

BOOST_AUTO_TEST_CASE(who_sleeps_on_a_lane_is_woken_by_bytes_by_room_and_by_the_end) {
  TwoStacks two("shm");
  const auto [ours, theirs] = two.pair();
  const std::string much = rubbish(3 * LanePool::kRingBytes);
  for (int i = 0; i < 20; ++i) {  // after these sends, the connection has a lane
    BOOST_REQUIRE(two.client.send(ours, bytes_of(much.substr(0, 1000)), 0) == 1000);
    BOOST_REQUIRE(receive_all(two.server, theirs, 1000).size() == 1000);
  }
  auto sent =
      std::async(std::launch::async, [&, fd = ours] { return two.client.send(fd, bytes_of(much), 0); });
  while ((two.client.events(ours, POLLOUT) & POLLOUT) != 0) std::this_thread::yield();
  BOOST_TEST((receive_all(two.server, theirs, much.size()) == much));
  BOOST_TEST((sent.get() == Answer(much.size())));

  const timeval wait{.tv_sec = 0, .tv_usec = 30'000};
  BOOST_REQUIRE(two.server.set_option(theirs, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait));
  std::byte byte;
  BOOST_TEST((two.server.receive(theirs, {&byte, 1}, 0) == Answer(std::unexpected(EAGAIN))));
  const timeval never{};
  BOOST_REQUIRE(two.server.set_option(theirs, SOL_SOCKET, SO_RCVTIMEO, &never, sizeof never));
  auto ended = std::async(std::launch::async, [&, fd = theirs] { return receive_all(two.server, fd); });
  BOOST_REQUIRE(two.client.send(ours, bytes_of("last"), 0));
  BOOST_REQUIRE(two.client.close(ours));
  BOOST_TEST(ended.get() == "last");
}

BOOST_AUTO_TEST_SUITE_END()
