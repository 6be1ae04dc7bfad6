// Makes and ends connections with peers that use rdma_cm. It uses the messages of InfiniBand's communication
// management (IBTA vol. 1, 12.9), which the management queue pairs of both hosts exchange. A Manager is a
// pure state machine: its inputs are datagrams and the time, and its outputs are datagrams and events. The
// driver is the code that uses this class. When an event reports the peer's queue pair, the driver connects
// its own queue pair to it. The functions are in three files: manager.cpp (connections, timers, ends),
// manager_active.cpp (the requesting side), manager_passive.cpp (the accepting side). One thread owns and
// drives a Manager.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "dataplane/base/error.hpp"
#include "dataplane/cm/messages.hpp"

namespace rdmc::cm {

/// An event of a connection that the driver must know or act on.
struct Event {
  enum class Kind : std::uint8_t {
    /// A peer requests a connection to a port that this side listens on. The driver must call accept() or
    /// reject().
    requested,
    /// The peer accepted the request. The driver must connect its queue pair and then call confirm().
    accepted,
    established,  ///< The peer is ready too: packets may be sent to it.
    rejected,     ///< The peer rejected the request; see `reason`.
    unreachable,  ///< The peer did not answer.
    /// The peer or this side has ended the connection. If this side has ended it, the peer has also answered,
    /// or it will not answer any more.
    disconnected
  };
  Kind kind{};
  CommunicationId connection{};
  Address peer;                         ///< For `requested`: the peer's address with its rdma_cm port.
  std::uint16_t port = 0;               ///< For `requested`: the local port number.
  QueuePairParameters peer_queue_pair;  ///< Set for `requested` and `accepted`.
  std::uint32_t path_mtu = 0;           ///< Set for `requested` and `accepted`.
  RejectReason reason{};
  std::vector<std::byte> private_data;  ///< The data of the peer's program, padded with zeros.
};

struct Datagram {
  Address peer;
  Mad mad;
};

/// Counts received datagrams that had no effect, and repeated messages. The numbers never decrease.
struct Counters {
  std::uint64_t malformed = 0;   ///< Datagrams without a known message, or with a bad value in a field.
  std::uint64_t duplicates = 0;  ///< Messages that had been received before.
  /// Messages whose connection does not exist, or whose sender is not the peer of their connection.
  std::uint64_t strays = 0;
  std::uint64_t repeated = 0;  ///< Messages of this side that were sent again.
};

class Manager {
 public:
  /// The largest number of connections that are being made, exist, or ended recently. If this number is
  /// reached, a connection that has ended is removed for each new connection. If there is no ended
  /// connection, a request is rejected for lack of resources.
  static constexpr std::size_t kMostConnections = 1024;

  /// `address` is the address of this host. `entropy` must return unguessable 32-bit numbers. `traffic_class`
  /// is the traffic class of this side's packets. The messages request peers to use the same value for their
  /// packets.
  Manager(Address address, std::function<std::uint32_t()> entropy, std::uint8_t traffic_class = 0)
      : address_(address), entropy_(std::move(entropy)), traffic_class_(traffic_class) {}

  /// Accepts requests to `port` from now on. Errors: already_exists if this side already listens on `port`.
  Result<void> listen(std::uint16_t port);

  /// Requests a connection with `peer`, whose port number must be its rdma_cm port. An event reports the
  /// result within about a minute. Errors: resource_limit if there are too many connections, invalid_argument
  /// if `path_mtu` is not a valid path MTU or if only one of the two addresses is IPv6.
  Result<CommunicationId> connect(const Address& peer, const QueuePairParameters& ours,
                                  std::uint32_t path_mtu, Time now);
  /// Confirms to the peer that the connection is established. Must be called after the event `accepted`, when
  /// this side's queue pair is ready.
  void confirm(CommunicationId connection);
  /// Accepts a request: sends a reply. Must be called after the event `requested`. This side's queue pair
  /// must be ready before the call, because the peer may send at once. For each direction, the reply offers
  /// at most the number of READs and atomics that the peer has requested (12.7.29, 12.7.30).
  void accept(CommunicationId connection, const QueuePairParameters& ours, Time now);
  /// Rejects a connection that is not established yet. An established connection is disconnected instead,
  /// because a message of the peer may have established it in the meantime. The event `disconnected` follows.
  void reject(CommunicationId connection, RejectReason reason, Time now);
  /// Called after accept, when the first packet of the peer has arrived. The packet shows that the peer is
  /// ready, even if the peer's message ReadyToUse was lost.
  void on_data(CommunicationId connection, Time now);
  /// Ends a connection in any state. The event `disconnected` follows.
  void disconnect(CommunicationId connection, Time now);

  void on_datagram(const Address& source, std::span<const std::byte> mad, Time now);
  void on_timer(Time now);
  Time next_deadline() const;
  bool poll_transmit(Datagram& out);
  bool poll_event(Event& out);

  const Counters& counters() const { return counters_; }
  /// The number of connections that are being made, exist, or ended recently.
  std::size_t connections() const { return connections_.size(); }

 private:
  enum class State : std::uint8_t {
    request_sent,
    accepted,  ///< A reply has arrived. The driver prepares its queue pair.
    requested,
    reply_sent,
    established,
    disconnect_sent,
    ended  ///< The connection is kept for a while, so that messages which the peer repeats are answered.
  };
  struct Connection {
    State state{};
    Address peer;  ///< The port number of this address is never compared.
    CommunicationId remote{};
    Qpn local_qpn{}, remote_qpn{};
    /// The numbers that the peer's request contains.
    std::uint8_t asked_responder_resources = 0, asked_initiator_depth = 0;
    std::uint64_t transaction = 0;
    /// The latest message. It is repeated until it is answered, and it is sent again when the peer repeats
    /// its own message. nullopt if this side has not sent a message.
    std::optional<Mad> latest;
    std::uint32_t path_mtu = 0;
    Time deadline = Time::never();
    /// If the connection is not established at this time, it is given up.
    Time end_of_patience = Time::never();
    std::uint32_t repeats = 0;
    bool refused = false;  ///< This side has rejected the connection, and `latest` is the rejection.
  };
  using Connections = std::map<CommunicationId, Connection>;

  // Defined in manager.cpp.
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

  // Defined in manager_active.cpp.
  void on_message(const Address& source, const Message& message, const Reply& reply, Time now);

  // Defined in manager_passive.cpp.
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
