// Makes and ends connections with peers that use rdma_cm, by the messages of InfiniBand's communication
// management (IBTA vol. 1, 12.9) exchanged between the management queue pairs of both hosts. A pure state
// machine: datagrams and the time go in, datagrams and events come out; the driver connects its queue pair
// when an event says to whom. Bodies are split by side: manager.cpp (connections, timers, ends),
// manager_active.cpp, manager_passive.cpp. Owned and driven by one thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "dataplane/base/error.hpp"
#include "dataplane/cm/messages.hpp"

namespace rdmc::cm {

/// What of a connection the driver has to know or do.
struct Event {
  enum class Kind : std::uint8_t {
    requested,    ///< a peer wants to connect to a port that we listen on: accept or reject
    accepted,     ///< the peer took our request: connect the queue pair, then confirm
    established,  ///< the peer is ready too: it may be sent to
    rejected,     ///< … or did not take it; `reason`
    unreachable,  ///< nobody answered
    disconnected  ///< the peer ended it, or answered that we did, or never will
  };
  Kind kind{};
  CommunicationId connection{};
  Address peer;                         ///< requested: the peer's, with its rdma_cm port
  std::uint16_t port = 0;               ///< requested: of ours
  QueuePairParameters peer_queue_pair;  ///< requested, accepted
  std::uint32_t path_mtu = 0;           ///< requested, accepted
  RejectReason reason{};
  std::vector<std::byte> private_data;  ///< the program's own, filled up with zeros
};

struct Datagram {
  Address peer;
  Mad mad;
};

/// Why datagrams led to nothing. Monotone.
struct Counters {
  std::uint64_t malformed = 0;   ///< not a message that we know, or a field out of range
  std::uint64_t duplicates = 0;  ///< answered again
  std::uint64_t strays = 0;      ///< for a connection that there is not, or from somebody else than its peer
  std::uint64_t repeated = 0;    ///< messages of ours that were sent again
};

class Manager {
 public:
  /// Connections that are being made or kept, or were a while ago. Those that are at their end give way; a
  /// request beyond is rejected for lack of resources.
  static constexpr std::size_t kMostConnections = 1024;

  /// `address`: of this host. `entropy`: unguessable 32-bit numbers. `traffic_class`: of our packets, which
  /// peers are asked to give theirs.
  Manager(Address address, std::function<std::uint32_t()> entropy, std::uint8_t traffic_class = 0)
      : address_(address), entropy_(std::move(entropy)), traffic_class_(traffic_class) {}

  /// Errors: already_exists.
  Result<void> listen(std::uint16_t port);

  /// Asks `peer` (its port as rdma_cm's) for a connection. An event will tell how it ends, within about
  /// a minute. Errors: resource_limit, invalid_argument (a path MTU that is none).
  Result<CommunicationId> connect(const Address& peer, const QueuePairParameters& ours,
                                  std::uint32_t path_mtu, Time now);
  /// After `accepted`, when our queue pair is ready.
  void confirm(CommunicationId connection);
  /// After `requested`, when our queue pair is ready: the peer may send at once. The peer is told of no more
  /// READs and atomics than it has asked for, in either direction (12.7.29, 12.7.30).
  void accept(CommunicationId connection, const QueuePairParameters& ours, Time now);
  /// Of what is not established yet; what is, is disconnected: a message that crossed may have made it so.
  /// `disconnected` follows.
  void reject(CommunicationId connection, RejectReason reason, Time now);
  /// After `requested` and accept: the peer's first packet has come, so it is ready though its message was
  /// lost.
  void on_data(CommunicationId connection, Time now);
  /// Ends a connection in whatever state; `disconnected` follows.
  void disconnect(CommunicationId connection, Time now);

  void on_datagram(const Address& source, std::span<const std::byte> mad, Time now);
  void on_timer(Time now);
  Time next_deadline() const;
  bool poll_transmit(Datagram& out);
  bool poll_event(Event& out);

  const Counters& counters() const { return counters_; }
  /// Those that are being made, exist, or ended lately.
  std::size_t connections() const { return connections_.size(); }

 private:
  enum class State : std::uint8_t {
    request_sent,
    accepted,  ///< a reply came, the driver makes its queue pair ready
    requested,
    reply_sent,
    established,
    disconnect_sent,
    ended  ///< kept for a while to answer what is repeated
  };
  struct Connection {
    State state{};
    Address peer;  ///< its port is not looked at
    CommunicationId remote{};
    Qpn local_qpn{}, remote_qpn{};
    std::uint8_t asked_responder_resources = 0, asked_initiator_depth = 0;  ///< by the peer's request
    std::uint64_t transaction = 0;
    /// Repeated until it is answered, and whenever the peer asks for it again; nothing if we have not
    /// answered.
    std::optional<Mad> latest;
    std::uint32_t path_mtu = 0;
    Time deadline = Time::never();
    /// When it is given up at the latest, unless it is established.
    Time end_of_patience = Time::never();
    std::uint32_t repeats = 0;
    bool refused = false;  ///< by us: that is the latest
  };
  using Connections = std::map<CommunicationId, Connection>;

  // manager.cpp
  static bool same_host(const Address& a, const Address& b);
  CommunicationId fresh_id();
  bool make_room();
  Connection* find(CommunicationId local, const Address& source, CommunicationId remote);
  void send(const Address& peer, const Mad& mad) { outgoing_.push_back({peer, mad}); }
  void send_latest(const Connection& connection) {
    if (connection.latest) send(connection.peer, *connection.latest);
  }
  void send_reject(CommunicationId id, Connection& connection, RejectReason reason);
  void send_until_answered(Connection& connection, const Message& message, Time now);
  static void wait(Connection& connection, Duration time, Time now);
  void end(CommunicationId id, Connection& connection, Time now);
  void on_message(const Address& source, const Message& message, const MessageReceived& received, Time now);
  void on_message(const Address& source, const Message& message, const DisconnectRequest& request, Time now);
  void on_message(const Address& source, const Message& message, const DisconnectReply& reply, Time now);
  void on_message(const Address& source, const Message& message, const Reject& reject, Time now);
  void give_up(CommunicationId id, Connection& connection, Time now);

  // manager_active.cpp
  void on_message(const Address& source, const Message& message, const Reply& reply, Time now);

  // manager_passive.cpp
  void on_message(const Address& source, const Message& message, const Request& request, Time now);
  void on_message(const Address& source, const Message& message, const ReadyToUse& ready, Time now);
  void establish(CommunicationId id, Connection& connection);

  Address address_;
  std::function<std::uint32_t()> entropy_;
  std::uint8_t traffic_class_;
  std::set<std::uint16_t> listening_;
  Connections connections_;
  std::deque<Datagram> outgoing_;
  std::deque<Event> events_;
  Counters counters_;
};

}  // namespace rdmc::cm
