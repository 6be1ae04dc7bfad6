// socket_peer serve|ask ADDRESS PORT FABRIC: two of these processes exchange data through every kind of
// socket, at ADDRESS and at the port numbers from PORT on. They check each byte. FABRIC is the name that
// getsockopt must return at this end. Exit status: 0 if all checks passed, 1 if a check failed. The last line
// of the output then names the failed check.
#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <rdmc/socket.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using rdmc::Socket;
using Bytes = std::vector<std::byte>;

// These are more bytes than the windows have space for. So most of them are sent in slots.
constexpr std::size_t kStreamBytes = 2'500'000;
constexpr std::size_t kPieceBytes = 1 << 20, kPieces = 3;
constexpr std::array<std::size_t, 5> kMessages{0, 1, 1'000, 70'000, 900'000};
constexpr std::size_t kPublished = 200;
// The offset of each socket's port number from PORT.
enum Offset : std::uint16_t { kStream, kZeroCopy, kPackets, kGroup };

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::_Exit(1);
}

void check(bool right, const std::string& what) {
  if (!right) die(what + " (errno: " + std::strerror(errno) + ")");
}

template <typename Result>
auto must(Result result, const char* what) {
  if (!result) die(std::string(what) + ": " + result.error().message());
  if constexpr (!std::is_void_v<typename Result::value_type>) return std::move(*result);
}

void fill(std::span<std::byte> bytes, std::size_t seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
}

Bytes rubbish(std::size_t bytes, std::size_t seed) {
  Bytes all(bytes);
  fill(all, seed);
  return all;
}

std::size_t published_bytes(std::size_t number) {
  return number % 50 == 49 ? 300'000 : number * 7 % 3'000;
}

class Peer {
 public:
  Peer(sockaddr_in address, std::string fabric) : address_(address), fabric_(std::move(fabric)) {}

  void serve() const {
    Socket stream = listen(SOCK_STREAM, kStream), in_place = listen(SOCK_STREAM, kZeroCopy);
    Socket packets = listen(SOCK_SEQPACKET, kPackets), group = listen(RDMC_GROUP, kGroup);
    publish(std::move(group));
    send_back(must(stream.accept(), "accept"));
    read_in_place(must(in_place.accept(), "accept"));
    send_back(must(packets.accept(), "accept"));
  }
  void ask() const {
    // The group is tested first, and ends before the other sockets begin. RDMA devices send only to UDP port
    // 4791, so the group and the other sockets cannot use this port at the same time. A close returns before
    // the group has given the port back.
    subscribe(connect(RDMC_GROUP, kGroup));
    if (fabric_ == "udp") wait_for_port();
    stream(connect(SOCK_STREAM, kStream));
    send_in_place(connect(SOCK_STREAM, kZeroCopy));
    messages(connect(SOCK_SEQPACKET, kPackets));
  }

 private:
  Socket open(int type) const {
    Socket socket = must(Socket::open(type), "socket");
    if (type == RDMC_GROUP) must(socket.join_as("news"), "RDMC_SO_GROUP");
    must(socket.set(SOL_SOCKET, SO_RCVTIMEO, timeval{.tv_sec = 60}),
         // Only a failing test waits for the whole time.
         "SO_RCVTIMEO");
    return socket;
  }
  sockaddr_in at(Offset offset) const {
    sockaddr_in there = address_;
    there.sin_port = htons(static_cast<in_port_t>(ntohs(address_.sin_port) + offset));
    return there;
  }
  Socket listen(int type, Offset offset) const {
    Socket socket = open(type);
    must(socket.bind(at(offset)), "bind");
    must(socket.listen(), "listen");
    return socket;
  }
  Socket connect(int type, Offset offset) const {
    Socket socket = open(type);
    must(socket.connect(at(offset)), "connect");
    return socket;
  }
  static void wait_for_port() {
    sockaddr_in any{.sin_family = AF_INET};
    any.sin_port = htons(4791);
    for (int tries = 0; tries < 3'000; ++tries) {
      const int probe = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      const bool is_free = ::bind(probe, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0;
      ::close(probe);
      if (is_free) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    die("the group does not give UDP port 4791 back");
  }
  void check_fabric(const Socket& socket) const {
    char name[32] = "";
    socklen_t length = sizeof name;
    check(rdmc_getsockopt(socket.descriptor(), RDMC_SOL_SOCKET, RDMC_SO_FABRIC, name, &length) == 0,
          "RDMC_SO_FABRIC");
    if (fabric_ != name) die("through " + std::string(name) + ", not " + fabric_);
  }
  static void check_nothing_copied(const Socket& socket) {
    std::uint64_t copied = 1;
    socklen_t length = sizeof copied;
    check(rdmc_getsockopt(socket.descriptor(), RDMC_SOL_SOCKET, RDMC_SO_COPIED, &copied, &length) == 0,
          "RDMC_SO_COPIED");
    if (copied != 0) die(std::to_string(copied) + " bytes were copied");
  }

  /// Sends all received streams and messages back. An empty message is sent back as an empty message.
  void send_back(Socket end) const {
    check_fabric(end);
    Bytes room(1 << 20);
    iovec into{.iov_base = room.data(), .iov_len = room.size()};
    for (;;) {
      msghdr message{};
      message.msg_iov = &into;
      message.msg_iovlen = 1;
      const ssize_t got = rdmc_recvmsg(end.descriptor(), &message, 0);
      check(got >= 0, "recvmsg");
      if (got == 0 && (message.msg_flags & MSG_EOR) == 0) return;
      must(end.send(std::span(room).first(static_cast<std::size_t>(got))), "sending back");
    }
  }
  void stream(Socket end) const {
    check_fabric(end);
    const Bytes out = rubbish(kStreamBytes, 1);
    std::thread sender([&] {
      must(end.send(out), "send");
      must(end.shutdown(SHUT_WR), "shutdown");
    });
    Bytes back, room(100'000);
    while (const auto got = must(end.receive(room), "receive"))
      back.insert(back.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(got));
    sender.join();
    check(back == out, "the stream came back as something else");
  }
  void messages(Socket end) const {
    check_fabric(end);
    Bytes room(1 << 20);
    for (const std::size_t size : kMessages) {
      const Bytes out = rubbish(size, size);
      must(end.send(out), "sending a message");
      const std::size_t got = must(end.receive(room), "receiving a message");
      check(std::ranges::equal(std::span(room).first(got), out), "another message came back");
    }
  }

  void send_in_place(Socket end) const {
    auto* const memory = static_cast<std::byte*>(rdmc_alloc(kPieceBytes));
    check(memory != nullptr, "rdmc_alloc");
    for (std::size_t i = 0; i < kPieces; ++i) {
      std::uint64_t number = 0;
      fill({memory, kPieceBytes}, i);
      check(rdmc_send_zc(end.descriptor(), memory, kPieceBytes, MSG_NOSIGNAL, &number) == kPieceBytes,
            "rdmc_send_zc");
      check(rdmc_sent(end.descriptor(), number, 0) == 0, "rdmc_sent");
    }
    check_nothing_copied(end);
    must(end.shutdown(SHUT_WR), "shutdown");
    std::byte none;
    check(must(end.receive({&none, 1}), "receive") == 0, "the other end closes when it has all");
    check(rdmc_free(memory) == 0, "rdmc_free");
  }
  void read_in_place(Socket end) const {
    Bytes all;
    void* lent = nullptr;
    ssize_t got = 0;
    while ((got = rdmc_recv_zc(end.descriptor(), &lent, 0)) > 0) {
      const std::span bytes(static_cast<const std::byte*>(lent), static_cast<std::size_t>(got));
      all.insert(all.end(), bytes.begin(), bytes.end());
      check(rdmc_release(lent) == 0, "rdmc_release");
    }
    check(got == 0, "rdmc_recv_zc");
    check_nothing_copied(end);
    check(all.size() == kPieces * kPieceBytes, "not all came in place");
    for (std::size_t i = 0; i < kPieces; ++i)
      check(std::ranges::equal(std::span(all).subspan(i * kPieceBytes, kPieceBytes), rubbish(kPieceBytes, i)),
            "other bytes came in place");
  }

  static void publish(Socket root) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(rdmc_member_event))> room{};
    msghdr message{};
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    check(rdmc_recvmsg(root.descriptor(), &message, 0) == 0 && (message.msg_flags & MSG_OOB) != 0,
          "nobody joins");
    for (std::size_t i = 0; i < kPublished; ++i)
      must(root.send(rubbish(published_bytes(i), i)), "publishing");
    must(root.set(SOL_SOCKET, SO_LINGER, linger{.l_onoff = 1, .l_linger = 30}), "SO_LINGER");
    must(root.close(), "close");
  }
  static void subscribe(Socket member) {
    Bytes room(1 << 20);
    for (std::size_t i = 0; i < kPublished; ++i) {
      const std::size_t got = must(member.receive(room), "receiving what is published");
      check(std::ranges::equal(std::span(room).first(got), rubbish(published_bytes(i), i)),
            "something else was published");
    }
    check(must(member.receive(room), "receive") == 0, "more was published");
  }

  const sockaddr_in address_;
  const std::string fabric_;
};

}  // namespace

int main(int argc, char** argv) {
  sockaddr_in address{.sin_family = AF_INET};
  if (argc != 5 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return 2;
  address.sin_port = htons(static_cast<in_port_t>(std::atoi(argv[3])));
  const Peer peer(address, argv[4]);
  argv[1] == std::string_view("serve") ? peer.serve() : peer.ask();
}
