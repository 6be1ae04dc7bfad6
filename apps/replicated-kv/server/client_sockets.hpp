// The TCP connections of the clients of a server. It reads requests into the parsers of Service, and writes
// what Service has for the clients. A client that does not read its replies is not read from either. One
// thread uses it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

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

  /// Handles an event of a descriptor of this object. `key` is the data of the event. Returns false if it
  /// belongs to somebody else.
  bool on_event(std::uint64_t key, std::uint32_t events, Moment now);
  /// Writes the output of the clients that Service names.
  void write_changed(Moment now);
  /// Accepts no more clients.
  void stop_listening();
  /// Ends all connections.
  void close_all();
  /// What an operator should know since the last call.
  std::vector<std::string> take_complaints() { return std::exchange(complaints_, {}); }
  /// The address on which the clients connect.
  const Address& address() const { return address_; }

  /// Keys from this one on belong to clients. Lower ones are free for the caller.
  static constexpr std::uint64_t kListenKey = 16, kFirstClientKey = 17;

 private:
  struct Socket {
    Descriptor fd;
    Client* client = nullptr;
    std::size_t written = 0;   // of the output
    std::uint32_t events = 0;  // that epoll reports
  };

  ClientSockets(Descriptor listener, const Address& address, int epoll, Service& service)
      : listener_(std::move(listener)), address_(address), epoll_(epoll), service_(&service) {}
  void accept_all(Moment now);
  bool refuse_without_descriptor(int error, Moment now);
  void watch_listener(std::uint32_t events);
  void listen_again(Moment now);
  void read(Socket& socket, Moment now);
  bool write(Socket& socket);
  void watch(Socket& socket);
  void close(Socket& socket);

  Descriptor listener_, spare_;
  Milliseconds listens_again_ = 0;  // 0: the listening socket is watched
  bool has_said_no_descriptor_ = false;
  std::vector<std::string> complaints_;
  Address address_;
  int epoll_;
  Service* service_;
  std::unordered_map<std::uint64_t, Socket> sockets_;  // by the number of the client
};

}  // namespace rdmc::kv
