// Tests SEQPACKET by random programs on a connected pair. Each step runs on the kernel's AF_UNIX
// SOCK_SEQPACKET and on this library's sockets, and must give the same result. Other tests send messages that
// are longer than all windows. The kernel does not have such messages.
#include "lib/socket/messages.hpp"

#include <malloc.h>
#include <poll.h>
#include <rapidcheck.h>
#include <sys/socket.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <sstream>

#include "dataplane/base/descriptor.hpp"
#include "tests/lib/socket/wire.hpp"

BOOST_AUTO_TEST_SUITE(messages_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

constexpr int kPrograms = 10'000;
constexpr std::size_t kLongest = Stream::kWindowBytes * 3 / 2;

/// Both ends of a connection of messages.
struct Pair : Wire {
  explicit Pair(std::size_t frame_bytes) {
    client.frame_bytes = server.frame_bytes = frame_bytes;
    Socket listener(ConnectionKind::messages);
    listener.listen(1);
    server.listener = &listener;
    near.emplace(ConnectionKind::messages);
    client.connect(*near);
    settle();
    BOOST_REQUIRE((near->connect() == Socket::Connecting::succeeded));
    far.emplace(listener.accept()->stream);
    server.listener = nullptr;
  }
  std::optional<Socket> near, far;
};

long of(Answer answer) {
  return answer ? static_cast<long>(*answer) : -static_cast<long>(answer.error());
}

class Program {
 public:
  Program(std::map<long, int>& seen, std::uint64_t seed, int number)
      : seen_(seen), random_(seed * 1'000'003 + static_cast<std::uint64_t>(number)), ours_(4096) {
    std::array<int, 2> pair;
    BOOST_REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) == 0);
    for (int i : {0, 1}) kernels_[i] = Descriptor(pair[i]);
  }

  /// Runs the program. Returns an empty string, or the difference and the steps before it.
  std::string run() {
    for (int calls = any(4, 24); calls > 0 && failure_.empty(); --calls) {
      step(any(0, 1));
      ours_.settle();
      for (const int end : {0, 1})
        if (kernels_[end]) compare("poll", polled(end), socket(end)->events() & kAll);
    }
    return failure_.empty() ? "" : trace_.str() + failure_;
  }

 private:
  static constexpr short kAll = POLLIN | POLLOUT | POLLRDHUP | POLLHUP | POLLERR;
  int any(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  std::optional<Socket>& socket(int end) { return end == 0 ? ours_.near : ours_.far; }
  void compare(const char* what, long kernels, long ours) {
    trace_ << what << " = " << kernels << "\n";
    if (kernels != ours && failure_.empty()) failure_ = "but ours: " + std::to_string(ours) + "\n";
  }
  long polled(int end) {
    pollfd each{.fd = kernels_[end].get(), .events = kAll};
    ::poll(&each, 1, 0);
    return each.revents;
  }

  void step(int end) {
    if (!kernels_[end]) return;
    trace_ << "end " << end << ": ";
    switch (any(0, 11)) {
      case 0: return close(end);
      case 1: return shutdown(end);
      case 2: return error(end);
      case 3:
      case 4:
      case 5:
      case 6: return receive(end);
      default: return send(end);
    }
  }

  void send(int end) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(any(0, 3) == 0 ? 0 : any(1, 2000)));
    for (auto& byte : bytes) byte = static_cast<std::byte>(random_());
    const long kernels = ::send(kernels_[end].get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    const long answer = kernels < 0 ? -errno : kernels;
    ++seen_[std::min(answer, 1L)];
    compare("send", answer, of(socket(end)->send(bytes)));
  }

  void receive(int end) {
    std::vector<std::byte> kernels(static_cast<std::size_t>(any(0, 3) == 0 ? any(0, 20) : any(0, 3000)));
    auto ours = kernels;
    const bool peek = any(0, 3) == 0;
    iovec into{.iov_base = kernels.data(), .iov_len = kernels.size()};
    msghdr message{};
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    const long got = ::recvmsg(kernels_[end].get(), &message, MSG_TRUNC | (peek ? MSG_PEEK : 0));
    const long answer = got < 0 ? -errno : got;
    const bool is_message = socket(end)->has_message();
    const Answer own = socket(end)->receive(ours, peek);
    compare("receive", answer, of(own));
    compare("cut", (message.msg_flags & MSG_TRUNC) != 0, own.value_or(0) > ours.size());
    if (own && *own > 0) compare("is a message", 1, is_message);
    ++seen_[answer > 0 ? 2 : answer == 0 && is_message ? 3 : answer == 0 ? 4 : answer];
    if (kernels != ours) failure_ += "other bytes\n";
  }

  void shutdown(int end) {
    const int how = any(0, 2);
    compare("shutdown", ::shutdown(kernels_[end].get(), how),
            of(socket(end)->shutdown(static_cast<unsigned>(how) + 1)));
  }

  void error(int end) {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(kernels_[end].get(), SOL_SOCKET, SO_ERROR, &error, &length);
    compare("error", error, socket(end)->stream()->take_error());
  }

  void close(int end) {
    // Linux versions treat unread messages without bytes differently at a close. So the test reads such
    // messages first.
    std::byte none;
    while (socket(end)->has_message() && socket(end)->receive({&none, 1}, true) == Answer(0)) {
      const long kernels = ::recv(kernels_[end].get(), &none, 1, 0);
      compare("drain", kernels, of(socket(end)->receive({&none, 1}, false)));
    }
    trace_ << "close\n";
    kernels_[end].reset();
    socket(end)->close(false);
    socket(end).reset();
  }

  std::map<long, int>& seen_;
  std::mt19937_64 random_;
  std::array<Descriptor, 2> kernels_;
  Pair ours_;
  std::ostringstream trace_;
  std::string failure_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(random_programs_do_the_same_on_the_kernels_seqpacket_and_on_ours) {
  const char* const wanted = std::getenv("RDMC_SEED");
  const std::uint64_t seed = wanted == nullptr ? 1 : std::strtoull(wanted, nullptr, 10);
  std::map<long, int> seen;
  int failed = 0;
  for (int number = 0; number < kPrograms && failed < 3; ++number) {
    const std::string failure = Program(seen, seed, number).run();
    failed += !failure.empty();
    BOOST_CHECK_MESSAGE(failure.empty(), "RDMC_SEED=" << seed << ", program " << number << ":\n" << failure);
  }
  // The meanings of the numbers: 1 is bytes sent, 2 is bytes received, 3 is an empty message received, 4 is
  // the end received. Negative numbers are errors.
  for (const long way : {1, 2, 3, 4, -EAGAIN, -EPIPE, -ECONNRESET})
    BOOST_CHECK_MESSAGE(seen[way] > 50, "way " << way << " was met " << seen[way] << " times");
}

BOOST_AUTO_TEST_CASE(messages_of_any_length_arrive_whole_once_in_order_and_the_connection_is_then_forgotten) {
  BOOST_TEST(rc::check([] {
    Pair pair(*rc::gen::inRange<std::size_t>(64, 20'000));
    const auto lengths = *rc::gen::container<std::vector<std::size_t>>(
        *rc::gen::inRange<std::size_t>(1, 12),
        rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 300), rc::gen::inRange<std::size_t>(0, kLongest)));
    std::mt19937 order(*rc::gen::arbitrary<std::uint32_t>());
    std::size_t sent = 0, received = 0;
    std::vector<std::byte> message, room(kLongest);
    while (received < lengths.size()) {
      if (sent < lengths.size() && order() % 3 > 0) {
        message.assign(lengths[sent], static_cast<std::byte>(sent));
        const auto taken = pair.near->send(message);
        if (taken)
          ++sent;
        else
          RC_ASSERT(taken.error() == EAGAIN && !(pair.near->events() & POLLOUT));
      } else {
        pair.settle();
        const auto got = pair.far->receive(room, false);
        if (!got) {
          RC_ASSERT(got.error() == EAGAIN && sent == received);
          continue;
        }
        RC_ASSERT(*got == lengths[received]);
        RC_ASSERT(std::ranges::all_of(std::span(room).first(*got),
                                      [&](std::byte b) { return b == static_cast<std::byte>(received); }));
        ++received;
      }
    }
    const bool nearer_first = *rc::gen::arbitrary<bool>();
    (nearer_first ? pair.near : pair.far)->close(false);
    if (*rc::gen::arbitrary<bool>()) pair.settle();
    (nearer_first ? pair.far : pair.near)->close(false);
    pair.settle();
    RC_ASSERT(pair.client.mux->size() == 0 && pair.server.mux->size() == 0);
  }));
}

BOOST_AUTO_TEST_CASE(too_long_a_message_is_refused_and_a_peer_that_announces_one_loses_its_connection) {
  Pair pair(4096);
  const std::vector<std::byte> most(Messages::kMostBytes + 1);
  BOOST_TEST((pair.near->send(most) == Answer(std::unexpected(EMSGSIZE))));
  BOOST_TEST((pair.near->send(std::span(most).first(most.size() - 1)) == Answer(most.size() - 1)));
  pair.settle();
  BOOST_TEST(pair.far->has_message());
  std::vector<std::byte> few(10);
  BOOST_TEST((pair.far->receive(few, true) == Answer(most.size() - 1)));
  BOOST_TEST((pair.far->receive(few, false) == Answer(most.size() - 1)));
  BOOST_TEST((pair.far->receive(few, false) == Answer(std::unexpected(EAGAIN))));
  const std::vector<std::byte> head(4, std::byte{0xFF});
  BOOST_REQUIRE(pair.near->stream()->send(head));
  pair.settle();
  BOOST_TEST((pair.far->receive(few, false) == Answer(std::unexpected(EPROTO))));
  BOOST_TEST((pair.near->receive(few, false) == Answer(std::unexpected(ECONNRESET))));
  BOOST_TEST((pair.near->receive(few, false) == Answer(0)));
}

BOOST_AUTO_TEST_CASE(what_is_read_of_a_connection_that_is_over_needs_nothing_of_who_carried_it) {
  Pair pair(4096);
  const std::vector<std::byte> good(1), head(4, std::byte{0xFF});
  BOOST_REQUIRE(pair.near->send(good));
  BOOST_REQUIRE(pair.near->stream()->send(head));
  pair.settle();
  pair.near->close(true);
  pair.settle();
  pair.server.mux.reset();
  std::vector<std::byte> room(10);
  BOOST_TEST((pair.far->receive(room, false) == Answer(std::unexpected(ECONNRESET))));
  BOOST_TEST((pair.far->receive(room, false) == Answer(1)));
  BOOST_TEST((pair.far->receive(room, false) == Answer(std::unexpected(EPROTO))));
  BOOST_TEST((pair.far->receive(room, false) == Answer(0)));
}

/// A process closes its sockets in order and ends. Its peer may see the end of the process before it has
/// answered the closes. It is an error if something waits to be sent, or if the process has only ended its
/// own direction. AF_UNIX reports the same.
BOOST_AUTO_TEST_CASE(a_connection_that_was_closed_in_order_has_no_error_when_its_process_ends) {
  for (const bool closes : {true, false}) {
    for (const bool has_unsent : {false, true}) {
      Pair pair(4096);
      const std::vector<std::byte> bytes(1);
      if (has_unsent) BOOST_REQUIRE(pair.far->send(bytes));
      BOOST_REQUIRE(pair.near->send(bytes));
      if (closes)
        pair.near->close(false);
      else
        BOOST_REQUIRE(pair.near->shutdown(Stream::kShutWrite));
      while (pair.client.say()) BOOST_REQUIRE(pair.hear(pair.client));
      pair.server.mux->lose(ECONNRESET);
      std::vector<std::byte> room(10);
      if (has_unsent || !closes)
        BOOST_TEST((pair.far->receive(room, false) == Answer(std::unexpected(ECONNRESET))));
      BOOST_TEST((pair.far->receive(room, false) == Answer(1)));
      BOOST_TEST((pair.far->receive(room, false) == Answer(0)));
      BOOST_TEST((pair.far->send(bytes) == Answer(std::unexpected(EPIPE))));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_long_message_takes_no_more_memory_than_twice_what_has_come_of_it) {
  Pair pair(4096);
  const auto budget = pair.server.mux->budget();
  const auto in_use = [] {
    const auto memory = ::mallinfo2();
    return memory.uordblks + memory.hblkhd;
  };
  BOOST_REQUIRE(pair.near->send(std::vector<std::byte>(Messages::kMostBytes)));
  const std::size_t all = budget->left(), before = in_use();
  std::size_t came = 0;
  for (; came < 2 * Stream::kWindowBytes && pair.client.say(); came += 4096) {
    BOOST_REQUIRE(pair.hear(pair.client));
    while (pair.server.say()) BOOST_REQUIRE(pair.hear(pair.server));
    BOOST_TEST(all - budget->left() <= std::max(2 * (came + 4096), Stream::kWindowBytes));
  }
  BOOST_TEST(came >= 2 * Stream::kWindowBytes);
  BOOST_TEST(in_use() < before + 8 * Stream::kWindowBytes);
}

BOOST_AUTO_TEST_CASE(who_makes_us_keep_too_much_of_long_messages_loses_that_connection_and_what_was_kept) {
  Pair pair(4096);
  const auto budget = pair.server.mux->budget();
  BOOST_REQUIRE(budget->take(budget->left() - Stream::kWindowBytes));
  const std::vector<std::byte> most(Stream::kWindowBytes), more(most.size() + 1);
  std::vector<std::byte> room(10);
  for (int i = 0; i < 3; ++i) {
    BOOST_REQUIRE(pair.near->send(most));
    pair.settle();
    BOOST_TEST(budget->left() == 0U);
    BOOST_TEST((pair.far->receive(room, false) == Answer(most.size())));
    BOOST_TEST(budget->left() == most.size());
  }
  BOOST_REQUIRE(pair.near->send(more));
  pair.settle();
  BOOST_TEST((pair.far->receive(room, false) == Answer(std::unexpected(ENOBUFS))));
  BOOST_TEST((pair.near->receive(room, false) == Answer(std::unexpected(ECONNRESET))));
  BOOST_TEST(budget->left() == most.size());
}

BOOST_AUTO_TEST_SUITE_END()
