// The TCP connections of the clients of a server. It reads requests into the parsers of Service, and writes
// what Service has for the clients. A client that does not read its replies is not read from either. One
// thread uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "apps/replicated-kv/server/tls.hpp"
#include "apps/replicated-kv/service/service.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

class ClientSockets {
 public:
  /// Listens on `address`. `epoll` and `service` must exist longer. Errors: those of socket(), bind() and
  /// listen().
  static Result<ClientSockets> listen(const Address& address, int epoll, Service& service);
  /// Also listens on `address` for clients with TLS. If `only`, the other clients are told to use TLS, before
  /// they connect. Errors: those of listen().
  Result<void> listen_tls(const Address& address, TlsContext context, bool only);

  /// Handles an event of a descriptor of this object. `key` is the data of the event. Returns false if it
  /// belongs to somebody else.
  bool on_event(std::uint64_t key, std::uint32_t events, Moment now);
  /// Writes the output of the clients that Service names.
  void write_changed(Moment now);
  /// Closes connections whose TLS handshake takes too long.
  void end_late_handshakes(Moment now);
  /// The time at which end_late_handshakes() must be called next, on the steady clock.
  std::optional<Milliseconds> next_deadline() const;
  /// Accepts no more clients.
  void stop_listening();
  /// Ends all connections.
  void close_all();
  /// Returns what an operator should know, and was not returned by an earlier call.
  std::vector<std::string> take_complaints() { return std::exchange(complaints_, {}); }
  /// The address on which the clients connect, without and with TLS.
  const Address& address() const { return plain_.address; }
  const Address& tls_address() const { return tls_.address; }

  /// Keys from this one on belong to clients. Lower ones are free for the caller.
  static constexpr std::uint64_t kListenKey = 16, kListenTlsKey = 17, kFirstClientKey = 18;
  /// A TLS handshake may take this time. At most this number of connections are in a handshake; a further one
  /// takes the place of the oldest one.
  static constexpr Milliseconds kLongestHandshake = 10'000;
  static constexpr std::size_t kMostHandshakes = 256;

 private:
  struct Listener {
    Descriptor fd;
    Address address;
  };
  struct Socket {
    Descriptor fd;
    TlsStream tls;  // after `fd`, which it uses until its end
    Client* client = nullptr;
    std::size_t written = 0;   // of the output
    std::uint32_t events = 0;  // that epoll reports
    // TLS may have to write before it can read, and to read before it can write.
    bool read_needs_write = false, write_needs_read = false;

    bool is_in_handshake() const { return tls.is_used() && !tls.is_established(); }
  };
  enum class Outcome : std::uint8_t { some, nothing, ended, failed };

  static Result<Listener> open(const Address& address, int epoll, std::uint64_t key);
  ClientSockets(Listener plain, int epoll, Service& service);
  void accept_all(const Listener& listener, Moment now);
  bool refuse_without_descriptor(const Listener& listener, int error, Moment now);
  void watch_listeners(std::uint32_t events);
  void listen_again(Moment now);
  void begin_handshake(std::uint64_t number, Moment now);
  /// Returns false if the connection is not ready for requests.
  bool continue_handshake(Socket& socket);
  Outcome receive(Socket& socket, std::span<char> space, std::size_t& got);
  Outcome send(Socket& socket, std::span<const char> bytes, std::size_t& sent);
  void read(Socket& socket, Moment now);
  bool write(Socket& socket);
  void watch(Socket& socket);
  void close(Socket& socket);

  Listener plain_, tls_;  // `tls_` has no descriptor without TLS
  std::optional<TlsContext> tls_context_;
  bool needs_tls_ = false;
  Descriptor spare_;
  Milliseconds listens_again_ = 0;  // 0: the listening sockets are watched
  bool has_said_no_descriptor_ = false;
  std::vector<std::string> complaints_;
  int epoll_;
  Service* service_;
  std::deque<std::pair<Milliseconds, std::uint64_t>> handshakes_;  // their ends, and the clients
  std::size_t open_handshakes_ = 0;
  std::unordered_map<std::uint64_t, Socket> sockets_;  // by the number of the client
};

}  // namespace rdmc::kv
