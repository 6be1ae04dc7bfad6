// Tests kernels and devices that refuse what this kernel permits. The test replaces functions of the C
// library below the driver, so that each refusal happens when the test requests it.
#include <dlfcn.h>
#include <liburing.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/port/udp_self_test.hpp"
#include "tests/dataplane/port/udp_fixture.hpp"

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;

namespace {

struct Refusals {
  int sends = 0;        // The next `sends` calls of sendmmsg fail.
  int send_error = 0;   // The error of these calls.
  bool trains = false;  // True if UDP_SEGMENT is refused.
  bool receive_trains = false;
  bool io_uring = false;
  bool epoll_pwait2 = false;
  int truncate = 0;  // The next `truncate` received messages are reported as truncated.
} refusals;

struct Refusing {
  explicit Refusing(const Refusals& what) { refusals = what; }
  ~Refusing() { refusals = {}; }
};

bool has_train(const msghdr* message) {
  const cmsghdr* const first = CMSG_FIRSTHDR(message);
  return first != nullptr && first->cmsg_level == SOL_UDP && first->cmsg_type == UDP_SEGMENT;
}

bool mentions(const PortInfo& info, const std::string& word) {
  return std::ranges::any_of(info.notes,
                             [&](const auto& note) { return note.find(word) != std::string::npos; });
}

void check_that_trains_pass(Port& sender, Port& receiver) {
  const Bytes sent = random_bytes(3 * 500, 1);
  send(sender, sent, 500, receiver.info().address);
  Bytes got;
  for (const Datagram& datagram : receive_datagrams(receiver, 3)) {
    BOOST_TEST(datagram.bytes.size() == 500);
    got.insert(got.end(), datagram.bytes.begin(), datagram.bytes.end());
  }
  BOOST_TEST((got == sent));
}

}  // namespace

extern "C" {

int sendmmsg(int descriptor, mmsghdr* messages, unsigned count, int flags) {
  if (refusals.sends > 0) {
    --refusals.sends;
    errno = refusals.send_error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_sendmmsg, descriptor, messages, count, flags));
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  if (refusals.trains && has_train(message)) {
    errno = EINVAL;
    return -1;
  }
  return syscall(SYS_sendmsg, descriptor, message, flags);
}

int recvmmsg(int descriptor, mmsghdr* messages, unsigned count, int flags, timespec* timeout) {
  const auto got = static_cast<int>(syscall(SYS_recvmmsg, descriptor, messages, count, flags, timeout));
  for (int i = 0; i < got && refusals.truncate > 0; ++i, --refusals.truncate)
    messages[i].msg_hdr.msg_flags |= MSG_TRUNC;
  return got;
}

int setsockopt(int descriptor, int level, int option, const void* value, socklen_t length) noexcept {
  if (refusals.receive_trains && level == SOL_UDP && option == UDP_GRO) {
    errno = ENOPROTOOPT;
    return -1;
  }
  return static_cast<int>(syscall(SYS_setsockopt, descriptor, level, option, value, length));
}

int io_uring_queue_init_params(unsigned entries, io_uring* ring, io_uring_params* parameters) noexcept {
  if (refusals.io_uring) return -EPERM;
  using Function = int (*)(unsigned, io_uring*, io_uring_params*);
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, "io_uring_queue_init_params"))(entries, ring,
                                                                                    parameters);
}

int epoll_pwait2(int descriptor, epoll_event* events, int room, const timespec* timeout,
                 const sigset_t* mask) {
  if (refusals.epoll_pwait2) {
    errno = ENOSYS;
    return -1;
  }
  return static_cast<int>(syscall(SYS_epoll_pwait2, descriptor, events, room, timeout, mask, _NSIG / 8));
}

}  // extern "C"

BOOST_AUTO_TEST_CASE(a_device_that_refuses_a_train_gets_single_datagrams_from_then_on) {
  const auto sender = open(1);
  const auto receiver = open(2);
  BOOST_REQUIRE(sender->info().train_segments > 1);
  {
    const Refusing refusing({.sends = 1, .send_error = EIO});
    send(*sender, random_bytes(3 * 500, 1), 500, receiver->info().address);
  }
  BOOST_TEST(sender->counters().send_failed == 1);
  BOOST_TEST(sender->info().train_segments == 1U);
  BOOST_TEST(!sender->info().identification_counts_up);
  BOOST_TEST(mentions(sender->info(), "UDP_SEGMENT"));
  check_that_trains_pass(*sender, *receiver);
}

BOOST_AUTO_TEST_CASE(trains_that_the_kernel_has_no_room_for_stay_with_the_caller) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const Sendable sendable(random_bytes(100, 1), 100, receiver->info().address);
  const std::array trains{sendable.train, sendable.train};
  {
    const Refusing refusing({.sends = 1, .send_error = EAGAIN});
    BOOST_TEST(sender->send_burst(trains) == 0);
  }
  BOOST_TEST(sender->counters().send_refused == 1);
  BOOST_TEST(sender->counters().datagrams_sent == 0);
  BOOST_TEST(sender->send_burst(trains) == 2);
  BOOST_TEST(receive_datagrams(*receiver, 2).size() == 2);
}

BOOST_AUTO_TEST_CASE(a_network_that_cannot_be_reached_costs_one_train_and_no_more) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const Sendable sendable(random_bytes(100, 1), 100, receiver->info().address);
  const std::array trains{sendable.train, sendable.train, sendable.train};
  const Refusing refusing({.sends = 1, .send_error = ENETUNREACH});
  BOOST_TEST(sender->send_burst(trains) == 3);
  BOOST_TEST(sender->counters().send_failed == 1);
  BOOST_TEST(sender->counters().datagrams_sent == 2);
  BOOST_TEST(sender->info().train_segments > 1U);
}

BOOST_AUTO_TEST_CASE(without_permission_for_io_uring_the_port_opens_all_the_same) {
  const Refusing refusing({.io_uring = true});
  const auto sender = open(1);
  const auto receiver = open(2);
  BOOST_TEST(mentions(receiver->info(), "io_uring"));
  check_that_trains_pass(*sender, *receiver);
  const auto insisting = open_udp_port({.address = loopback(1), .io_uring = Use::on});
  BOOST_REQUIRE(!insisting.has_value());
  BOOST_TEST((insisting.error().code == Errc::unsupported));
}

BOOST_AUTO_TEST_CASE(without_epoll_pwait2_a_port_waits_all_the_same) {
  const Refusing refusing({.epoll_pwait2 = true});
  const auto sender = open(1);
  const auto receiver = open({.address = loopback(2), .io_uring = Use::off});
  const Time start = monotonic_now();
  receiver->wait(start + microseconds(1500));
  BOOST_TEST((monotonic_now() - start).ns >= microseconds(1500).ns);
  send(*sender, Bytes(10), 10, receiver->info().address);
  receiver->wait(Time::never());
  BOOST_TEST(receive_datagrams(*receiver, 1).size() == 1);
}

BOOST_AUTO_TEST_CASE(a_kernel_without_udp_gro_receives_datagram_by_datagram) {
  const Refusing refusing({.receive_trains = true});
  const auto sender = open(1);
  const auto receiver = open(2);
  BOOST_TEST(receiver->info().receive_train_segments == 1U);
  BOOST_TEST(mentions(receiver->info(), "UDP_GRO"));
  check_that_trains_pass(*sender, *receiver);
  BOOST_TEST(!open_udp_port({.address = loopback(1), .receive_trains = Use::on}).has_value());
}

BOOST_AUTO_TEST_CASE(a_kernel_without_udp_segment_is_found_out_at_start_up) {
  const Refusing refusing({.trains = true});
  const auto sender = open(1);
  const auto receiver = open(2);
  BOOST_TEST(sender->info().train_segments == 1U);
  BOOST_TEST(mentions(sender->info(), "UDP_SEGMENT"));
  check_that_trains_pass(*sender, *receiver);
  BOOST_TEST(!open_udp_port({.address = loopback(1), .segmentation = Use::on}).has_value());
}

BOOST_AUTO_TEST_CASE(a_truncated_train_is_counted_and_not_handed_up) {
  const auto sender = open(1);
  const auto receiver = open(2);
  const Refusing refusing({.truncate = 1});
  send(*sender, random_bytes(10, 1), 10, receiver->info().address);
  send(*sender, random_bytes(20, 1), 20, receiver->info().address);
  const auto got = receive_datagrams(*receiver, 1);
  BOOST_TEST(got.size() == 1);
  BOOST_TEST(got[0].bytes.size() == 20);
  BOOST_TEST(receiver->counters().receive_truncated == 1);
}

BOOST_AUTO_TEST_CASE(the_self_test_sees_what_the_kernel_writes_into_the_identification) {
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  SocketAddress address;
  address.ipv4 = own;
  const auto abilities = try_udp(address);
  BOOST_REQUIRE(abilities.has_value());
  BOOST_TEST(abilities->reaches_itself);
  BOOST_TEST(abilities->segmentation);
  BOOST_TEST(abilities->receive_trains);
  BOOST_REQUIRE(abilities->first_identification.has_value());
  BOOST_TEST(*abilities->first_identification == 0);
}
