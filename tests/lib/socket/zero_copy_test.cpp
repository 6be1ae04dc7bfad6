#include <fcntl.h>
#include <sys/epoll.h>

#include <atomic>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <thread>
#include <tuple>

#include "dataplane/base/descriptor.hpp"
#include "lib/include/rdmc/socket.h"
#include "tests/lib/socket/two_stacks.hpp"
#include "tests/lib/socket/waiting.hpp"

BOOST_AUTO_TEST_SUITE(zero_copy_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

const auto kFabrics = boost::unit_test::data::make({"udp", "shm"});

/// Returns memory from which bytes are sent. `begin` and the position of a byte determine the byte's value.
std::span<std::byte> filled(Stack& stack, std::size_t bytes, unsigned begin) {
  const auto memory = stack.allocate(bytes);
  BOOST_REQUIRE(memory);
  const std::span all(static_cast<std::byte*>(*memory), bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>((begin + i) * 0x9E37'79B9 >> 24);
  return all;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t copied(Stack& stack, int fd) {
  std::uint64_t bytes = 0;
  socklen_t length = sizeof bytes;
  BOOST_REQUIRE(stack.get_option(fd, RDMC_SOL_SOCKET, RDMC_SO_COPIED, &bytes, &length));
  return bytes;
}

/// Receives until the end. Gives each piece back at once.
std::string receive_in_place(Stack& stack, int fd) {
  std::string all;
  void* where = nullptr;
  for (;;) {
    const auto got = stack.receive_in_place(fd, &where, 0);
    BOOST_REQUIRE(got);
    if (*got == 0) return all;
    all += text_of({static_cast<const std::byte*>(where), *got});
    BOOST_REQUIRE(stack.release(where));
  }
}

}  // namespace

BOOST_DATA_TEST_CASE(what_is_sent_and_received_in_place_is_copied_by_nobody, kFabrics, fabric) {
  TwoStacks two(fabric);
  const auto [ours, theirs] = two.pair();
  const auto much = filled(two.client, 3 * SlotMemory::kSlotBytes + 17, 1), few = filled(two.client, 5, 2);
  auto got = std::async(std::launch::async, [&, at = theirs] { return receive_in_place(two.server, at); });
  std::string expected;
  std::uint64_t number = 0;
  for (int i = 0; i < 8; ++i) {  // these are more chunks than the peer has slots
    for (const auto bytes : {much, few}) {
      BOOST_REQUIRE((two.client.send_in_place(ours, bytes, 0, number) == Answer(bytes.size())));
      expected += text_of(bytes);
    }
  }
  BOOST_TEST(two.client.wait_sent(ours, number, 0).has_value());
  BOOST_REQUIRE(two.client.shutdown(ours, SHUT_WR));
  BOOST_TEST((got.get() == expected));
  BOOST_TEST((copied(two.client, ours) == 0U && copied(two.server, theirs) == 0U));
}

BOOST_DATA_TEST_CASE(sends_of_every_kind_keep_their_order_and_may_be_received_by_any_call, kFabrics, fabric) {
  TwoStacks two(fabric);
  for (const bool in_place : {true, false}) {
    const auto [ours, theirs] = two.pair();
    const auto much = filled(two.client, SlotMemory::kSlotBytes + 1, 3), few = filled(two.client, 700, 4);
    auto got = std::async(std::launch::async, [&, at = theirs] {
      return in_place ? receive_in_place(two.server, at) : receive_all(two.server, at);
    });
    std::string expected;
    std::uint64_t number = 0;
    // The first sends go in frames, the next ones through a lane, and the last ones in slots.
    for (int i = 0; i < 60; ++i) {
      const auto bytes = i % 10 == 9 ? much : few;
      const auto sent = i % 20 == 19 || i > 50 ? two.client.send_in_place(ours, bytes, 0, number)
                                               : two.client.send(ours, bytes, 0);
      BOOST_REQUIRE((sent == Answer(bytes.size())));
      expected += text_of(bytes);
    }
    BOOST_REQUIRE(two.client.close(ours));  // the sent bytes must still arrive
    BOOST_TEST((got.get() == expected));
    BOOST_TEST(two.client.deallocate(much.data()).has_value());
  }
}

BOOST_DATA_TEST_CASE(whoever_epoll_calls_writable_can_send_and_whoever_cannot_is_called_again,
                     kFabrics* boost::unit_test::data::make({0U, unsigned{EPOLLET}}) *
                         boost::unit_test::data::make({false, true}),
                     fabric, edge, in_place) {
  TwoStacks two(fabric);
  const auto [ours, theirs] = two.pair();
  const auto piece = filled(two.client, SlotMemory::kSlotBytes, 7);
  constexpr std::size_t kAll = 40 * SlotMemory::kSlotBytes;
  auto got = std::async(std::launch::async, [&, at = theirs] { return receive_all(two.server, at, kAll); });
  const Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLOUT | edge, .data = {}};
  BOOST_REQUIRE((two.client.pollfd_of(ours) && two.client.control(ours, F_SETFL, O_NONBLOCK)));
  BOOST_REQUIRE(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, ours, &event) == 0);
  std::uint64_t number = 0;
  for (std::size_t sent = 0; sent < kAll;) {
    BOOST_REQUIRE(::epoll_wait(epoll.get(), &event, 1, 10'000) == 1);
    for (bool is_first = true;; is_first = false) {
      const auto rest = piece.subspan(sent % piece.size());
      const auto taken =
          in_place ? two.client.send_in_place(ours, rest, 0, number) : two.client.send(ours, rest, 0);
      // The first send in place must request slots, and the answer is not known yet.
      BOOST_REQUIRE((taken || (taken.error() == EAGAIN && (!is_first || (in_place && number == 0)))));
      sent += taken.value_or(0);
      // The socket is full, as epoll(7) defines this.
      if (!taken || *taken < rest.size() || sent == kAll) break;
    }
  }
  const std::string once = text_of(piece), all = got.get();
  for (std::size_t at = 0; at < kAll; at += once.size())
    BOOST_REQUIRE((all.compare(at, once.size(), once) == 0));
}

BOOST_AUTO_TEST_CASE(only_memory_of_ours_is_sent_from_and_only_what_was_lent_is_released) {
  TwoStacks two("udp");
  const auto [ours, theirs] = two.pair();
  const auto mine = filled(two.client, 4096, 5);
  std::vector<std::byte> foreign(100);
  std::uint64_t number = 0;
  const auto send = [&, to = ours](std::span<const std::byte> bytes, int flags = 0) {
    return two.client.send_in_place(to, bytes, flags, number);
  };
  BOOST_TEST((send(foreign) == Answer(std::unexpected(EFAULT))));
  // These bytes include bytes after the end of the allocation.
  BOOST_TEST((send({mine.data() + 1, mine.size()}) == Answer(std::unexpected(EFAULT))));
  BOOST_TEST((send({mine.data() + 1, 0}) == Answer(0)));
  BOOST_TEST((send(mine, MSG_OOB) == Answer(std::unexpected(EOPNOTSUPP))));
  BOOST_TEST((two.client.release(mine.data()) == Answer(std::unexpected(EINVAL))));
  BOOST_TEST((two.client.deallocate(foreign.data()) == Answer(std::unexpected(EINVAL))));
  void* where = nullptr;
  BOOST_TEST((two.server.receive_in_place(theirs, &where, MSG_DONTWAIT) == Answer(std::unexpected(EAGAIN))));
  BOOST_TEST((two.server.receive_in_place(theirs, nullptr, 0) == Answer(std::unexpected(EFAULT))));
  BOOST_TEST((two.server.receive_in_place(two.listener, &where, 0) == Answer(std::unexpected(ENOTCONN))));

  BOOST_TEST((send(mine) == Answer(mine.size())));
  BOOST_TEST((two.server.receive_in_place(theirs, &where, 0) == Answer(mine.size())));
  BOOST_REQUIRE(two.server.close(theirs));
  // The lent bytes must stay valid.
  BOOST_TEST((text_of({static_cast<std::byte*>(where), mine.size()}) == text_of(mine)));
  BOOST_TEST(two.server.release(where).has_value());
  BOOST_TEST((two.server.release(where) == Answer(std::unexpected(EINVAL))));
  BOOST_TEST(two.client.wait_sent(ours, number, 0).has_value());
  BOOST_TEST((two.client.wait_sent(ours, number + 1, 0) == Answer(std::unexpected(EINVAL))));
  BOOST_TEST((two.client.wait_sent(ours, number, MSG_PEEK) == Answer(std::unexpected(EOPNOTSUPP))));
  BOOST_TEST((two.server.wait_sent(two.listener, 0, 0) == Answer(std::unexpected(EOPNOTSUPP))));
  const int untouched = TwoStacks::new_socket(two.client);
  BOOST_TEST((two.client.wait_sent(untouched, 1, 0) == Answer(std::unexpected(EINVAL))));
  for (const int type : {SOCK_SEQPACKET, RDMC_GROUP}) {
    const Answer none = std::unexpected(EOPNOTSUPP);
    const int other = TwoStacks::new_socket(two.client, 0, type);
    BOOST_TEST((two.client.wait_sent(other, 0, 0) == none));
    BOOST_TEST((two.client.send_in_place(other, mine, 0, number) == none));
    BOOST_TEST((two.client.receive_in_place(other, &where, MSG_DONTWAIT) == none));
  }
  BOOST_TEST(two.client.deallocate(mine.data()).has_value());
  BOOST_TEST((two.client.deallocate(mine.data()) == Answer(std::unexpected(EINVAL))));
}

BOOST_AUTO_TEST_CASE(who_closes_in_the_middle_costs_nobody_else_its_slots) {
  TwoStacks two("udp");
  for (int i = 0; i < 2 * static_cast<int>(SlotMemory::kSlots / SlotMemory::kSlotsPerStream); ++i) {
    const auto [ours, theirs] = two.pair();
    const auto much = filled(two.client, 2 * SlotMemory::kSlots * SlotMemory::kSlotBytes, 6);
    std::uint64_t number = 0;
    BOOST_REQUIRE(two.client.send_in_place(ours, much, 0, number));
    void* where = nullptr;
    BOOST_REQUIRE(two.server.receive_in_place(theirs, &where, 0));
    // Most bytes are unread, so this close is a reset.
    BOOST_REQUIRE(two.server.close(theirs));
    BOOST_REQUIRE(two.server.release(where));
    // The wait ends because these bytes will never arrive.
    BOOST_TEST(two.client.wait_sent(ours, number, 0).has_value());
    BOOST_TEST(copied(two.client, ours) == 0U);
    BOOST_REQUIRE(two.client.close(ours));
    BOOST_REQUIRE(two.client.deallocate(much.data()));
  }
}

namespace {

/// A connection that has used its lanes for some time.
struct LanedPair : TwoStacks {
  LanedPair() : TwoStacks("shm") {
    std::tie(ours, theirs) = pair();
    for (int i = 0; i < 20; ++i) {
      BOOST_REQUIRE(client.send(ours, bytes_of("in a lane by now"), 0));
      receive_all(server, theirs, 16);
    }
  }
  void set_send_timeout(std::chrono::microseconds timeout) {
    const timeval wait{.tv_usec = timeout.count()};
    BOOST_REQUIRE(client.set_option(ours, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait));
  }
  int ours = -1, theirs = -1;
};

/// Returns text in which each 8 bytes contain their own position. `from` and `bytes` must be multiples of 8.
std::string counted(std::size_t from, std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t place = from + i;
    std::memcpy(&text[i], &place, 8);
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_a_waiting_send_lends_is_copied_by_the_reader_alone) {
  LanedPair two;
  const std::string much = counted(0, 16 << 20);
  Waiting sends([&, fd = two.ours] { return two.client.send(fd, bytes_of(much), 0); });
  // The lent bytes follow a full ring buffer. The writer is not woken before they have been read.
  std::string got(2 * LanePool::kRingBytes, '\0');
  const auto first = two.server.receive(two.theirs, std::as_writable_bytes(std::span(got)), 0);
  BOOST_TEST((first == Answer(got.size())));
  got += receive_all(two.server, two.theirs, much.size() - got.size());
  BOOST_TEST((sends.answer() == Answer(much.size())));
  BOOST_TEST((got == much));
}

BOOST_AUTO_TEST_CASE(sends_that_time_out_while_they_lend_have_sent_what_they_say_and_no_more) {
  LanedPair two;
  two.set_send_timeout(std::chrono::microseconds(300));
  constexpr std::size_t kAll = 64 << 20;
  std::atomic<std::size_t> timeouts = 0;
  std::atomic<bool> is_over = false;
  auto heard = std::async(std::launch::async, [&, fd = two.theirs] {
    std::vector<std::byte> room(3'000'000);
    std::size_t at = 0, most = 1, calls = 0;
    bool is_intact = true;
    while (const auto got = two.server.receive(fd, std::span(room).first(most = most * 7 % 2'999'999), 0)) {
      if (*got == 0) break;
      // Compares whole words, so the comparison starts at the first byte of a word.
      for (std::size_t i = (8 - at % 8) % 8; i + 8 <= *got; i += 8) {
        std::uint64_t place = 0;
        std::memcpy(&place, &room[i], 8);
        is_intact = is_intact && place == at + i;
      }
      at += *got;
      if (++calls % 8 != 0) continue;
      for (const std::size_t seen = timeouts; timeouts == seen && !is_over;) std::this_thread::yield();
    }
    return is_intact ? at : 0;
  });
  std::size_t gone = 0;
  for (std::size_t size = 8; gone < kAll; size = size * 5 % 2'000'003 / 8 * 8 + 8) {
    // The bytes exist only during the call. After that, their memory is overwritten.
    std::string bytes = counted(gone / 8 * 8, size + 8).substr(gone % 8);
    const auto sent = two.client.send(two.ours, bytes_of(bytes), 0);
    std::ranges::fill(bytes, '\xff');
    if (!sent) BOOST_REQUIRE(sent.error() == EAGAIN);
    timeouts += !sent || *sent < bytes.size();
    gone += sent.value_or(0);
  }
  is_over = true;
  BOOST_REQUIRE(two.client.close(two.ours));
  BOOST_TEST(heard.get() == gone);
  BOOST_TEST(timeouts.load() > 5u);
}

BOOST_AUTO_TEST_CASE(a_shutdown_by_another_thread_ends_a_send_that_lends_with_what_has_gone) {
  LanedPair two;
  const std::string much = counted(0, 4 << 20);
  auto sent = std::async(std::launch::async,
                         [&, fd = two.ours] { return two.client.send(fd, bytes_of(much), MSG_NOSIGNAL); });
  const std::size_t some = 8 << 17;
  BOOST_TEST((receive_all(two.server, two.theirs, some) == much.substr(0, some)));
  BOOST_REQUIRE(two.client.shutdown(two.ours, SHUT_WR));
  const auto gone = sent.get();
  BOOST_REQUIRE(gone.has_value());
  BOOST_TEST((receive_all(two.server, two.theirs) == much.substr(some, *gone - some)));
}

BOOST_AUTO_TEST_CASE(what_a_ring_has_room_for_is_taken_though_nobody_reads_on) {
  LanedPair two;
  const std::size_t more = LanePool::kRingBytes / 2 + 8000;
  const std::string much = counted(0, LanePool::kRingBytes + more);
  auto sent =
      std::async(std::launch::async, [&, fd = two.ours] { return two.client.send(fd, bytes_of(much), 0); });
  // When half of the ring buffer is free, the writer that waits for space is woken.
  const std::size_t some = more + LanePool::kRingBytes / 2;
  BOOST_TEST((receive_all(two.server, two.theirs, some) == much.substr(0, some)));
  BOOST_TEST((sent.get() == Answer(much.size())));
  BOOST_TEST((receive_all(two.server, two.theirs, much.size() - some) == much.substr(some)));
}

BOOST_AUTO_TEST_SUITE_END()
