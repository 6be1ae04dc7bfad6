// Tests absent pages in an application's memory. A userfaultfd withholds them here. They must delay only the
// call that copies from them or to them. Other sockets of both processes must continue, and so must the
// fabric threads. This is tested for sends and receives, for bytes and messages, and for few and many bytes.
// It is also tested for a call that lends its bytes to the reader, which copies them from the sender's
// memory.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>

#include "dataplane/base/descriptor.hpp"
#include "lib/include/rdmc/socket.h"
#include "tests/lib/socket/two_stacks.hpp"
#include "tests/skipped_cases.hpp"

BOOST_AUTO_TEST_SUITE(absent_pages_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

/// The time limit of a failing test. No test measures a time.
constexpr std::chrono::seconds kPatience(30);

/// Memory of 4 MB. Its middle is absent until provide() is called.
class Memory {
 public:
  static constexpr std::size_t kBytes = 4 << 20, kBegin = 1 << 20, kAbsent = 2 << 20;

  Memory() {
    void* const where = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BOOST_REQUIRE(where != MAP_FAILED);
    bytes_ = {static_cast<char*>(where), kBytes};
    ::madvise(where, kBytes, MADV_NOHUGEPAGE);
    std::memset(bytes_.data(), 'a', kBegin);
    std::memset(bytes_.data() + kBegin + kAbsent, 'z', kBytes - kBegin - kAbsent);
  }
  ~Memory() { ::munmap(bytes_.data(), kBytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Makes the middle absent. Returns false if the kernel does not permit this.
  bool withhold() {
    fault_ = Descriptor(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
    uffdio_api api{};
    api.api = UFFD_API;
    uffdio_register middle{};
    middle.range = range();
    middle.mode = UFFDIO_REGISTER_MODE_MISSING;
    return fault_ && ::ioctl(fault_.get(), UFFDIO_API, &api) == 0 &&
           ::ioctl(fault_.get(), UFFDIO_REGISTER, &middle) == 0;
  }
  /// Waits until a thread waits for a page. Returns false if no thread does so within kPatience.
  bool is_waited_for() const {
    pollfd waits{.fd = fault_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waits, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1;
  }
  /// Makes the middle present. Its bytes are zeros.
  void provide() {
    uffdio_zeropage zeros{};
    zeros.range = range();
    BOOST_REQUIRE(::ioctl(fault_.get(), UFFDIO_ZEROPAGE, &zeros) == 0);
  }

  std::span<const std::byte> bytes() const { return std::as_bytes(bytes_); }
  /// Returns `count` bytes. The first half of them is present, and the second half is absent.
  std::span<std::byte> around_begin(std::size_t count) const {
    return std::as_writable_bytes(bytes_).subspan(kBegin - std::min(count / 2, kBegin), count);
  }
  std::string text() const { return {bytes_.data(), bytes_.size()}; }

 private:
  uffdio_range range() const {
    return {.start = reinterpret_cast<std::uint64_t>(bytes_.data()) + kBegin, .len = kAbsent};
  }

  std::span<char> bytes_;
  Descriptor fault_;
};

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Sends several times. After this, a connection over shared memory uses a lane.
void warm(TwoStacks& two, int ours, int theirs) {
  for (int i = 0; i < 8; ++i) {
    BOOST_REQUIRE(two.client.send(ours, bytes_of("word"), 0));
    BOOST_REQUIRE(receive_all(two.server, theirs, 4) == "word");
  }
}

/// Makes `call`, which has to wait for the pages that `memory` withholds. Meanwhile the connection `others`
/// must continue, in frames that the fabric threads carry. Returns the result of `call`.
template <typename Call>
Answer meanwhile_others_go_on(TwoStacks& two, Memory& memory, std::pair<int, int> others, Call call) {
  auto answer = std::async(std::launch::async, call);
  const bool is_waited_for = memory.is_waited_for();
  auto echo = std::async(std::launch::async, [&two, near = others.first, far = others.second] {
    return two.client.send(near, bytes_of("there"), 0) && receive_all(two.server, far, 5) == "there" &&
           two.server.send(far, bytes_of("back"), 0) && receive_all(two.client, near, 4) == "back";
  });
  const bool go_on = echo.wait_for(kPatience) == std::future_status::ready;
  memory.provide();
  BOOST_TEST(is_waited_for);
  BOOST_TEST(go_on);
  BOOST_TEST(echo.get());
  return answer.get();
}

const auto kFabrics = boost::unit_test::data::make({"udp", "shm"});

}  // namespace

BOOST_AUTO_TEST_CASE(pages_that_do_not_come_hold_up_the_connection_that_waits_for_them_and_no_other) {
  Memory memory;
  if (!memory.withhold()) {
    rdmc::testing::SkippedCases::reason() = "this kernel gives us no userfaultfd";
    return;
  }
  TwoStacks two("shm");
  const auto [ours, theirs] = two.pair();
  warm(two, ours, theirs);
  std::future<std::string> got;
  const auto others = two.pair();
  const Answer sent = meanwhile_others_go_on(two, memory, others, [&, fd = ours, end = theirs] {
    got =
        std::async(std::launch::async, [&two, end] { return receive_all(two.server, end, Memory::kBytes); });
    return two.client.send(fd, memory.bytes(), 0);
  });
  BOOST_TEST((sent == Answer(Memory::kBytes)));
  BOOST_TEST((got.get() == memory.text()));
}

BOOST_DATA_TEST_CASE(a_send_waits_alone_for_its_bytes, kFabrics, fabric) {
  for (const bool is_warm : {false, true}) {
    for (const std::size_t count : {100, 10'000, 200'000}) {
      Memory memory;
      if (!memory.withhold()) return;
      TwoStacks two(fabric);
      const auto [ours, theirs] = two.pair();
      if (is_warm) warm(two, ours, theirs);
      const auto bytes = memory.around_begin(count);
      const auto others = two.pair();
      const Answer sent = meanwhile_others_go_on(two, memory, others,
                                                 [&, fd = ours] { return two.client.send(fd, bytes, 0); });
      BOOST_TEST((sent == Answer(count)));
      BOOST_TEST((receive_all(two.server, theirs, count) == text_of(bytes)));
    }
  }
}

BOOST_DATA_TEST_CASE(a_receive_waits_alone_for_its_buffer, kFabrics, fabric) {
  for (const bool is_warm : {false, true}) {
    for (const std::size_t count : {100, 10'000, 200'000}) {
      Memory memory;
      if (!memory.withhold()) return;
      TwoStacks two(fabric);
      const auto [ours, theirs] = two.pair();
      if (is_warm) warm(two, ours, theirs);
      const std::string sent(count, 's');
      BOOST_REQUIRE((two.client.send(ours, bytes_of(sent), 0) == Answer(count)));
      const auto room = memory.around_begin(count);
      const auto others = two.pair();
      const Answer got = meanwhile_others_go_on(
          two, memory, others, [&, fd = theirs] { return two.server.receive(fd, room, MSG_WAITALL); });
      BOOST_TEST((got == Answer(count)));
      BOOST_TEST((text_of(room) == sent));
    }
  }
}

BOOST_DATA_TEST_CASE(messages_wait_alone_for_their_bytes_and_for_the_buffer_they_are_read_into, kFabrics,
                     fabric) {
  for (const std::size_t count : {100, 10'000, 200'000, 2'000'000}) {
    Memory from, to;
    if (!from.withhold() || !to.withhold()) return;
    TwoStacks two(fabric, SOCK_SEQPACKET);
    const auto others = two.pair();
    const auto [ours, theirs] = two.pair();
    const auto bytes = from.around_begin(count), room = to.around_begin(count);
    BOOST_TEST((meanwhile_others_go_on(two, from, others, [&, fd = ours] {
                  return two.client.send(fd, bytes, 0);
                }) == Answer(count)));
    BOOST_TEST((meanwhile_others_go_on(two, to, others, [&, fd = theirs] {
                  return two.server.receive(fd, room, 0);
                }) == Answer(count)));
    BOOST_TEST((text_of(room) == text_of(bytes)));
  }
}

BOOST_AUTO_TEST_CASE(a_close_while_a_message_waits_for_its_buffer_is_no_end_of_the_connection) {
  Memory memory;
  if (!memory.withhold()) return;
  TwoStacks two("udp", SOCK_SEQPACKET);
  const auto [ours, theirs] = two.pair();
  const std::string sent(10'000, 's');
  BOOST_REQUIRE((two.client.send(ours, bytes_of(sent), 0) == Answer(sent.size())));
  auto got = std::async(std::launch::async, [&, fd = theirs] {
    return two.server.receive(fd, memory.around_begin(sent.size()), 0);
  });
  const bool is_waited_for = memory.is_waited_for();
  const auto closed = two.server.close(theirs);
  memory.provide();
  BOOST_TEST(is_waited_for);
  BOOST_TEST(closed.has_value());
  BOOST_TEST((got.get() == Answer(std::unexpected(EBADF))));
}

BOOST_DATA_TEST_CASE(a_groups_messages_wait_alone_at_both_ends, kFabrics, fabric) {
  for (const std::size_t count : {100, 10'000, 2'000'000}) {
    Memory from, to;
    if (!from.withhold() || !to.withhold()) return;
    TwoStacks two(fabric);
    const auto others = two.pair();
    const auto group_socket = [](Stack& stack) {
      const int fd = TwoStacks::new_socket(stack, 0, RDMC_GROUP);
      BOOST_REQUIRE(stack.set_option(fd, RDMC_SOL_SOCKET, RDMC_SO_GROUP, "news", 4));
      return fd;
    };
    const int root = group_socket(two.server), member = group_socket(two.client);
    two.listen(root);
    BOOST_REQUIRE(two.connect(member));
    const auto bytes = from.around_begin(count), room = to.around_begin(count);
    BOOST_TEST((meanwhile_others_go_on(two, from, others, [&] { return two.server.send(root, bytes, 0); }) ==
                Answer(count)));
    BOOST_TEST((meanwhile_others_go_on(
                    two, to, others, [&] { return two.client.receive(member, room, 0); }) == Answer(count)));
    BOOST_TEST((text_of(room) == text_of(bytes)));
  }
}

/// The send cancels its offer of the bytes that it has lent. It then sends as many of these bytes as there is
/// space for.
BOOST_AUTO_TEST_CASE(a_send_whose_reader_does_not_come_waits_alone_for_what_it_has_lent) {
  Memory memory;
  if (!memory.withhold()) return;
  TwoStacks two("shm");
  const auto [ours, theirs] = two.pair();
  warm(two, ours, theirs);
  const timeval soon{.tv_sec = 0, .tv_usec = 1000};
  BOOST_REQUIRE(two.client.set_option(ours, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon));
  const auto bytes = memory.bytes().subspan(Memory::kBegin);
  const auto others = two.pair();
  const Answer sent =
      meanwhile_others_go_on(two, memory, others, [&, fd = ours] { return two.client.send(fd, bytes, 0); });
  BOOST_REQUIRE(sent.has_value());
  BOOST_TEST(*sent > 0U);
  BOOST_TEST((receive_all(two.server, theirs, *sent) == text_of(bytes.first(*sent))));
}

BOOST_AUTO_TEST_CASE(who_does_not_block_is_not_held_up_by_pages_that_do_not_come) {
  Memory memory;
  if (!memory.withhold()) return;
  TwoStacks two("shm");
  const auto [ours, theirs] = two.pair();
  warm(two, ours, theirs);
  auto sent =
      std::async(std::launch::async, [&, fd = ours] { return two.client.send(fd, memory.bytes(), 0); });
  std::atomic<bool> is_over = false;
  auto got = std::async(std::launch::async, [&, fd = theirs] {
    std::string all;
    std::vector<std::byte> room(300'000);
    while (all.size() < Memory::kBytes && !is_over) {
      const auto some = two.server.receive(fd, room, MSG_DONTWAIT);
      if (some) all.append(reinterpret_cast<const char*>(room.data()), *some);
    }
    return all;
  });
  BOOST_TEST(memory.is_waited_for());
  is_over = true;
  const bool has_returned = got.wait_for(kPatience) == std::future_status::ready;
  memory.provide();
  BOOST_TEST(has_returned);
  const std::string begin = got.get();
  BOOST_TEST((begin + receive_all(two.server, theirs, Memory::kBytes - begin.size()) == memory.text()));
  BOOST_TEST((sent.get() == Answer(Memory::kBytes)));
}

BOOST_AUTO_TEST_SUITE_END()
