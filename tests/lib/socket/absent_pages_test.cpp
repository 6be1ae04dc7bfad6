// A send that waits lends its bytes to the reader, who copies them from the sender's memory. Pages of that
// memory that do not come - here it is userfaultfd that withholds them - hold up this one connection. Other
// sockets of both processes go on, and so do their engines.
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>

#include "dataplane/base/descriptor.hpp"
#include "tests/lib/socket/two_stacks.hpp"
#include "tests/skipped_cases.hpp"

BOOST_AUTO_TEST_SUITE(absent_pages_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

/// Of a failing test; nothing here is timed.
constexpr std::chrono::seconds kPatience(30);

/// 4 MB, whose middle is not there until somebody provides it.
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

  /// False: the kernel does not let this process do that.
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
  /// Somebody waits for a page.
  bool is_waited_for() const {
    pollfd waits{.fd = fault_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&waits, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1;
  }
  /// Zeros, from now on.
  void provide() {
    uffdio_zeropage zeros{};
    zeros.range = range();
    BOOST_REQUIRE(::ioctl(fault_.get(), UFFDIO_ZEROPAGE, &zeros) == 0);
  }

  std::span<const std::byte> bytes() const { return std::as_bytes(bytes_); }
  std::string text() const { return {bytes_.data(), bytes_.size()}; }

 private:
  uffdio_range range() const {
    return {.start = reinterpret_cast<std::uint64_t>(bytes_.data()) + kBegin, .len = kAbsent};
  }

  std::span<char> bytes_;
  Descriptor fault_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(pages_that_do_not_come_hold_up_the_connection_that_waits_for_them_and_no_other) {
  Memory memory;
  if (!memory.withhold()) {
    rdmc::testing::SkippedCases::reason() = "this kernel gives us no userfaultfd";
    return;
  }
  TwoStacks two("shm");
  const auto [ours, theirs] = two.pair();
  const auto [near, far] = two.pair();
  for (int i = 0; i < 8; ++i) {  // by now in a lane
    BOOST_REQUIRE(two.client.send(ours, bytes_of("word"), 0));
    BOOST_REQUIRE(receive_all(two.server, theirs, 4) == "word");
  }
  auto sent =
      std::async(std::launch::async, [&, fd = ours] { return two.client.send(fd, memory.bytes(), 0); });
  auto got = std::async(std::launch::async,
                        [&, fd = theirs] { return receive_all(two.server, fd, Memory::kBytes); });
  const bool is_waited_for = memory.is_waited_for();
  // In frames, which the engines carry.
  auto others = std::async(std::launch::async, [&, fd = near, end = far] {
    return two.client.send(fd, bytes_of("there"), 0) && receive_all(two.server, end, 5) == "there" &&
           two.server.send(end, bytes_of("back"), 0) && receive_all(two.client, fd, 4) == "back";
  });
  const bool go_on = others.wait_for(kPatience) == std::future_status::ready;
  memory.provide();
  BOOST_TEST(is_waited_for);
  BOOST_TEST(go_on);
  BOOST_TEST(others.get());
  BOOST_TEST((sent.get() == Answer(Memory::kBytes)));
  BOOST_TEST((got.get() == memory.text()));
}

BOOST_AUTO_TEST_CASE(who_does_not_block_is_not_held_up_by_pages_that_do_not_come) {
  Memory memory;
  if (!memory.withhold()) return;
  TwoStacks two("shm");
  const auto [ours, theirs] = two.pair();
  for (int i = 0; i < 8; ++i) {
    BOOST_REQUIRE(two.client.send(ours, bytes_of("word"), 0));
    BOOST_REQUIRE(receive_all(two.server, theirs, 4) == "word");
  }
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
