// The sockets of two processes, in one process. Each has its own stack. So the two find each other over the
// loopback interface, connect without a key, and use the named fabric.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include <boost/test/unit_test.hpp>
#include <string_view>
#include <vector>

#include "lib/include/rdmc/socket.h"
#include "lib/socket/stack.hpp"

namespace rdmc::sockets::testing {

inline sockaddr_in loopback(std::uint16_t port = 0) {
  return {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Receives until the end, but at most `most` bytes. Returns the received bytes.
inline std::string receive_all(Stack& stack, int fd, std::size_t most = SIZE_MAX) {
  std::string all;
  std::vector<std::byte> room(100'000);
  while (all.size() < most) {
    const auto got = stack.receive(fd, std::span(room).first(std::min(room.size(), most - all.size())), 0);
    BOOST_REQUIRE(got);
    if (*got == 0) break;
    all.append(reinterpret_cast<const char*>(room.data()), *got);
  }
  return all;
}

struct TwoStacks {
  explicit TwoStacks(const char* fabric, int socket_type = SOCK_STREAM)
      : type(socket_type),
        server({.fabric = fabric, .insecure = true}),
        client({.fabric = fabric, .insecure = true}) {
    listener = new_socket(server, 0, type);
    listen(listener);
  }

  static int new_socket(Stack& stack, int flags = 0, int type = SOCK_STREAM) {
    const auto fd = stack.socket(AF_INET, type | flags, 0);
    BOOST_REQUIRE(fd);
    return static_cast<int>(*fd);
  }
  /// Makes the socket listen. Stores the new address in `address`.
  void listen(int fd) {
    address = loopback();
    const int on = 1;
    BOOST_REQUIRE(server.set_option(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    BOOST_REQUIRE(server.bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address));
    BOOST_REQUIRE(server.listen(fd, 16));
    socklen_t length = sizeof address;
    BOOST_REQUIRE(server.get_name(fd, reinterpret_cast<sockaddr*>(&address), &length, false));
  }
  Answer connect(int fd) {
    return client.connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  /// Makes a connection. Returns both ends.
  std::pair<int, int> pair() {
    const int ours = new_socket(client, 0, type);
    BOOST_REQUIRE(connect(ours));
    const auto theirs = server.accept(listener, nullptr, nullptr, 0);
    BOOST_REQUIRE(theirs);
    return {ours, static_cast<int>(*theirs)};
  }

  const int type;
  Stack server, client;
  int listener;
  sockaddr_in address{};
};

inline int group_socket(Stack& stack) {
  const int fd = TwoStacks::new_socket(stack, 0, RDMC_GROUP);
  BOOST_REQUIRE(stack.set_option(fd, RDMC_SOL_SOCKET, RDMC_SO_GROUP, "news", 4));
  return fd;
}

/// Makes `fd` the root of a group. Returns its address.
inline sockaddr_in found_group(Stack& root, int fd) {
  auto at = loopback();
  socklen_t length = sizeof at;
  BOOST_REQUIRE(root.bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at));
  BOOST_REQUIRE(root.listen(fd, 4));
  BOOST_REQUIRE(root.get_name(fd, reinterpret_cast<sockaddr*>(&at), &length, false));
  return at;
}

/// Makes `fd` a member of the group whose root has this address.
inline void join(Stack& member, int fd, const sockaddr_in& root) {
  BOOST_REQUIRE(member.connect(fd, reinterpret_cast<const sockaddr*>(&root), sizeof root));
}

}  // namespace rdmc::sockets::testing
