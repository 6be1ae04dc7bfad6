// Several threads use the same sockets at the same time, with all calls that rdmc/socket.h permits in any
// thread. ThreadSanitizer finds most of what can go wrong (tests/README.md, "Tests with threads").
#include <poll.h>

#include <atomic>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <future>
#include <random>
#include <thread>

#include "lib/include/rdmc/socket.h"
#include "tests/lib/socket/two_stacks.hpp"

BOOST_AUTO_TEST_SUITE(threads_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

const auto kFabrics = boost::unit_test::data::make({"udp", "shm"});

template <typename Task>
auto start(Task task) {
  return std::async(std::launch::async, std::move(task));
}

std::string rubbish(std::size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(bytes));
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

/// Reads `bytes` bytes. May be called in any thread, because it uses no check of Boost.Test.
std::string read_all(Stack& stack, int fd, std::size_t bytes) {
  std::string all(bytes, '\0');
  std::size_t done = 0;
  while (done < bytes) {
    const auto got = stack.receive(fd, std::as_writable_bytes(std::span(all)).subspan(done), 0);
    if (!got || *got == 0) break;
    done += *got;
  }
  all.resize(done);
  return all;
}

std::string read_in_place(Stack& stack, int fd, std::size_t bytes) {
  std::string all;
  void* where = nullptr;
  while (all.size() < bytes) {
    const auto got = stack.receive_in_place(fd, &where, 0);
    if (!got || *got == 0) break;
    all.append(static_cast<const char*>(where), *got);
    if (!stack.release(where)) break;
  }
  return all;
}

/// Sends `text` in place, `pieces` times.
bool send_in_place(Stack& stack, int fd, const std::string& text, int pieces) {
  const auto memory = stack.allocate(text.size());
  if (!memory) return false;
  std::ranges::copy(text, static_cast<char*>(*memory));
  bool is_well = true;
  for (int i = 0; i < pieces; ++i) {
    std::uint64_t number = 0;
    is_well =
        is_well &&
        stack.send_in_place(fd, {static_cast<std::byte*>(*memory), text.size()}, MSG_NOSIGNAL, number) &&
        stack.wait_sent(fd, number, 0);
  }
  return stack.deallocate(*memory) && is_well;
}

/// Makes connections that send one word and end. Returns their number, or -1 after an error.
int come_and_go(TwoStacks& two, const std::atomic<bool>& is_over) {
  int count = 0;
  for (; !is_over || count == 0; ++count) {
    const auto ours = two.client.socket(AF_INET, SOCK_STREAM, 0);
    if (!ours || !two.connect(static_cast<int>(*ours))) return -1;
    const auto theirs = two.server.accept(two.listener, nullptr, nullptr, 0);
    if (!theirs || !two.client.send(static_cast<int>(*ours), bytes_of("word"), MSG_NOSIGNAL)) return -1;
    if (read_all(two.server, static_cast<int>(*theirs), 4) != "word") return -1;
    if (!two.client.close(static_cast<int>(*ours)) || !two.server.close(static_cast<int>(*theirs))) return -1;
  }
  return count;
}

/// Makes calls that only examine the socket and change nothing.
void look_at(Stack& stack, int fd, const std::atomic<bool>& is_over) {
  while (!is_over) {
    pollfd wanted{.fd = fd, .events = POLLIN | POLLOUT, .revents = 0};
    (void)stack.poll({&wanted, 1}, 1);
    std::uint64_t number = 0;
    socklen_t length = sizeof number;
    (void)stack.get_option(fd, RDMC_SOL_SOCKET, RDMC_SO_COPIED, &number, &length);
    sockaddr_in name{};
    length = sizeof name;
    (void)stack.get_name(fd, reinterpret_cast<sockaddr*>(&name), &length, true);
  }
}

}  // namespace

BOOST_DATA_TEST_CASE(every_direction_has_a_thread_while_others_look_come_and_go, kFabrics, fabric) {
  TwoStacks two(fabric);
  const auto [ours, theirs] = two.pair();
  const auto [zero, zero_end] = two.pair();
  const std::string up = rubbish(5'000'000), down = rubbish(3'000'000), piece = rubbish(700'000);
  std::atomic<bool> is_over = false;
  auto looks = start([&, fd = ours] { look_at(two.client, fd, is_over); });
  auto comes = start([&] { return come_and_go(two, is_over); });
  auto in_place = start([&, fd = zero] { return send_in_place(two.client, fd, piece, 6); });
  auto read = start([&, fd = zero_end] { return read_in_place(two.server, fd, 6 * piece.size()); });
  auto sends_up = start([&, fd = ours] { return two.client.send(fd, bytes_of(up), MSG_NOSIGNAL); });
  auto sends_down = start([&, fd = theirs] { return two.server.send(fd, bytes_of(down), MSG_NOSIGNAL); });
  auto came_up = start([&, fd = theirs] { return read_all(two.server, fd, up.size()); });
  const std::string came_down = read_all(two.client, ours, down.size());
  BOOST_TEST((came_up.get() == up && came_down == down));
  BOOST_TEST((sends_up.get() == Answer(up.size()) && sends_down.get() == Answer(down.size())));
  BOOST_TEST(in_place.get());
  std::string wanted;
  for (int i = 0; i < 6; ++i) wanted += piece;
  BOOST_TEST((read.get() == wanted));
  is_over = true;
  looks.get();
  BOOST_TEST(comes.get() > 0);
}

BOOST_DATA_TEST_CASE(a_close_ends_whatever_others_do_with_the_socket, kFabrics, fabric) {
  TwoStacks two(fabric);
  // This text is longer than all buffers together.
  const std::string much = rubbish(16'000'000);
  const auto has_ended = [](const Answer& answer) {
    return answer || answer.error() == EBADF || answer.error() == ENOTSOCK;
  };
  for (int round = 0; round < 6; ++round) {
    const auto [ours, theirs] = two.pair();
    auto sends = start([&, fd = ours] { return two.client.send(fd, bytes_of(much), MSG_NOSIGNAL); });
    auto receives = start([&, fd = ours] {
      std::byte byte;
      return two.client.receive(fd, {&byte, 1}, 0);
    });
    auto polls = start([&, fd = ours] {
      pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
      return two.client.poll({&wanted, 1}, -1);
    });
    while (two.server.events(theirs, POLLIN) == 0) std::this_thread::yield();
    BOOST_TEST(two.client.close(ours).has_value());
    const auto sent = sends.get();
    BOOST_TEST((has_ended(sent) && sent != Answer(much.size())));
    BOOST_TEST((has_ended(receives.get()) && has_ended(polls.get())));
    BOOST_TEST(two.server.close(theirs).has_value());
  }
}

BOOST_DATA_TEST_CASE(members_of_a_group_read_while_its_root_sends_and_others_join_and_leave, kFabrics,
                     fabric) {
  constexpr int kMessages = 400;
  const auto group_socket = [](Stack& stack) {
    const int fd = TwoStacks::new_socket(stack, 0, RDMC_GROUP);
    BOOST_REQUIRE(stack.set_option(fd, RDMC_SOL_SOCKET, RDMC_SO_GROUP, "news", 4));
    return fd;
  };
  Stack root({.fabric = fabric, .insecure = true}), member({.fabric = fabric, .insecure = true}),
      guest({.fabric = fabric, .insecure = true});
  const int sends = group_socket(root), reads = group_socket(member);
  auto at = loopback();
  socklen_t length = sizeof at;
  BOOST_REQUIRE(root.bind(sends, reinterpret_cast<const sockaddr*>(&at), sizeof at));
  BOOST_REQUIRE(root.listen(sends, 4));
  BOOST_REQUIRE(root.get_name(sends, reinterpret_cast<sockaddr*>(&at), &length, false));
  BOOST_REQUIRE(member.connect(reads, reinterpret_cast<const sockaddr*>(&at), sizeof at));

  std::atomic<bool> is_over = false;
  auto publishes = start([&] {
    int done = 0;
    while (done < kMessages &&
           root.send(sends,
                     bytes_of(std::to_string(done) + std::string(static_cast<std::size_t>(done) * 100, '.')),
                     0))
      ++done;
    return done;
  });
  auto hears = start([&] {  // receives the events of members that join and leave
    int events = 0;
    while (!is_over) {
      int said = 0;
      std::optional<rdmc_member_event> event;
      if (root.receive(sends, {}, MSG_DONTWAIT, &said, &event) && event) ++events;
      std::this_thread::yield();
    }
    return events;
  });
  auto visits = start([&] {
    int visits_made = 0;
    for (; !is_over || visits_made == 0; ++visits_made) {
      const int fd = static_cast<int>(guest.socket(AF_INET, RDMC_GROUP, 0).value());
      if (!guest.set_option(fd, RDMC_SOL_SOCKET, RDMC_SO_GROUP, "news", 4) ||
          !guest.connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) || !guest.close(fd))
        return -1;
    }
    return visits_made;
  });
  int in_order = 0;
  std::vector<std::byte> room(200'000);
  for (int i = 0; i < kMessages; ++i) {
    const auto got = member.receive(reads, room, 0);
    BOOST_REQUIRE(got.has_value());
    in_order += std::ranges::equal(std::span(room).first(std::min(*got, std::to_string(i).size())),
                                   bytes_of(std::to_string(i)));
  }
  BOOST_TEST(in_order == kMessages);
  is_over = true;
  BOOST_TEST(publishes.get() == kMessages);
  BOOST_TEST(visits.get() > 0);
  BOOST_TEST(hears.get() > 0);
}

BOOST_AUTO_TEST_SUITE_END()
