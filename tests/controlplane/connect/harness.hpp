// Classes for the tests of channels: a control loop; a listener and clients that record their events; and
// plain sockets for peers that do not authenticate. Events are recorded under a lock. A test waits for events
// with a condition variable. A wait that takes longer than kPatience fails the test.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "controlplane/connect/connector.hpp"
#include "controlplane/connect/listener.hpp"
#include "controlplane/connect/socket.hpp"

namespace rdmc::control::testing {

inline constexpr std::chrono::seconds kPatience{120};
using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(std::string_view text) {
  Bytes bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

/// Protects data that one thread changes and another thread waits for.
class Events {
 public:
  template <typename Function>
  void change(Function function) {
    const std::lock_guard lock(mutex_);
    function();
    changed_.notify_all();
  }
  template <typename Predicate>
  [[nodiscard]] bool wait(Predicate predicate) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, predicate);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// One end of a channel, and the events of this end. It must not be moved, because its handlers refer to it.
/// Its channel must be used on the loop's thread.
struct End {
  explicit End(Events& all) : events(all) {}

  void take(Channel&& made) {
    channel.emplace(std::move(made));
    channel->start(
        [this](Bytes message) {
          if (on_first_message && messages.empty()) on_first_message();
          events.change([&] { messages.push_back(std::move(message)); });
        },
        [this](const Error& cause) { events.change([&] { closings.push_back(cause); }); });
    events.change([&] { established = true; });
  }

  Events& events;
  bool established = false;
  std::function<void()> on_first_message;
  std::vector<Bytes> messages;
  std::vector<Error> closings;
  std::vector<Error> refusals;  // The errors of failed attempts to connect.
  // Declared last, so destroyed first: its handlers write to the other members.
  std::optional<Channel> channel;
};

inline ChannelOptions options_for(const ClusterKey& key) {
  return {.security = TlsContext::create(key).value()};
}
inline ChannelOptions insecure_options() {
  return {.security = Insecure{}};
}

struct Harness {
  Harness() : loop(ControlLoop::create().value()) {}
  ~Harness() {
    // Handlers refer to the members below, so the loop must end before these members are destroyed.
    loop.reset();
  }

  void listen(const ChannelOptions& channel, std::size_t max_unauthenticated = 256) {
    ListenHandlers handlers;
    handlers.on_channel = [this](Channel made) {
      End* end = nullptr;
      events.change([&] { end = &accepted.emplace_back(events); });
      end->take(std::move(made));
    };
    handlers.on_refused = [this](const Address&, const Error& cause) {
      events.change([&] { refusals.push_back(cause); });
    };
    listener.emplace(Listener::listen(*loop, Address::ipv4(127, 0, 0, 1, 0),
                                      {.channel = channel, .max_unauthenticated = max_unauthenticated},
                                      std::move(handlers))
                         .value());
  }

  End& connect_to(const Address& address, const ChannelOptions& options, Duration deadline = seconds(10)) {
    auto& end = clients.emplace_back(events);
    attempts.push_back(connect(*loop, host_string(address), address.port, options, deadline,
                               [this, &end](Result<Channel> made) {
                                 if (made) return end.take(std::move(*made));
                                 events.change([&] { end.refusals.push_back(made.error()); });
                               }));
    return end;
  }
  End& connect_to_listener(const ChannelOptions& options) { return connect_to(listener->address(), options); }

  /// Makes a connected pair of channel ends. Returns the client's end and the server's end (accepted.back()).
  std::pair<End&, End&> pair(const ChannelOptions& server, const ChannelOptions& client) {
    listen(server);
    auto& end = connect_to_listener(client);
    BOOST_TEST_REQUIRE(
        events.wait([&] { return end.established && accepted.size() == 1 && accepted.back().established; }));
    return {end, accepted.back()};
  }

  Result<void> send(End& end, Bytes message) {
    return loop->call([&] { return end.channel->send(std::move(message)); });
  }
  void close(End& end) {
    loop->call([&] { end.channel->close(); });
  }

  Events events;
  std::list<End> accepted;
  std::list<End> clients;
  std::vector<Error> refusals;
  std::vector<Connecting> attempts;
  std::optional<Listener> listener;
  std::unique_ptr<ControlLoop> loop;
};

/// A plain blocking socket, for a peer that does not run rdmc or does not authenticate.
class UnauthenticatedClient {
 public:
  explicit UnauthenticatedClient(const Address& to)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_storage storage;
    const socklen_t length = to_sockaddr(to, storage);
    BOOST_TEST_REQUIRE(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&storage), length) == 0);
    limit_waiting();
  }
  explicit UnauthenticatedClient(Descriptor socket) : socket_(std::move(socket)) { limit_waiting(); }

  void say(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // The other side has closed the connection.
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
  }
  void say(std::string_view text) { say(bytes_of(text)); }

  /// Returns `size` bytes, or fewer bytes if the stream ends earlier.
  Bytes hear(std::size_t size) {
    Bytes heard(size);
    std::size_t filled = 0;
    while (filled < size) {
      const ssize_t got = ::recv(socket_.get(), heard.data() + filled, size - filled, 0);
      if (got <= 0) break;
      filled += static_cast<std::size_t>(got);
    }
    heard.resize(filled);
    return heard;
  }
  Bytes hear_all() { return hear(1 << 20); }

  void hang_up() { socket_.reset(); }
  /// Ends the connection with a reset instead of an end of stream.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    socket_.reset();
  }
  int descriptor() const { return socket_.get(); }

 private:
  void limit_waiting() {
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  Descriptor socket_;
};

/// A server that does not run rdmc, on a port of its own.
class StrangeServer {
 public:
  StrangeServer() : socket_(listen_on(Address::ipv4(127, 0, 0, 1, 0)).value()) {
    // listen_on() makes the socket non-blocking, but accept() must block in these tests.
    const int flags = ::fcntl(socket_.get(), F_GETFL);
    ::fcntl(socket_.get(), F_SETFL, flags & ~O_NONBLOCK);
  }
  Address address() const { return local_address(socket_.get()); }
  UnauthenticatedClient accept() {
    Descriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    BOOST_TEST_REQUIRE(static_cast<bool>(socket));
    return UnauthenticatedClient(std::move(socket));
  }

 private:
  Descriptor socket_;
};

}  // namespace rdmc::control::testing
