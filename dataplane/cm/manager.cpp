#include "dataplane/cm/manager.hpp"

#include <algorithm>

#include "dataplane/cm/constants.hpp"

namespace rdmc::cm {

CommunicationId Manager::fresh_id() {
  CommunicationId id;
  do id = CommunicationId{entropy_()};
  while (value_of(id) == 0 || connections_.contains(id));
  return id;
}

bool Manager::same_host(const Address& a, const Address& b) {
  return a.ipv6 == b.ipv6 && a.bytes == b.bytes;
}

/// Makes space for one more connection. If the table is full, this function removes a connection that has
/// ended, or is being ended, and is kept only for repeated messages. If there are several, it removes the
/// connection with the least time left. Returns false if there is no such connection.
bool Manager::make_room() {
  if (connections_.size() < kMostConnections) return true;
  auto least = connections_.end();
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    const bool ends = at->second.state == State::ended || at->second.state == State::disconnect_sent;
    if (ends && (least == connections_.end() || at->second.deadline < least->second.deadline)) least = at;
  }
  if (least == connections_.end()) return false;
  if (least->second.state == State::disconnect_sent)
    events_.push_back({.kind = Event::Kind::disconnected, .connection = least->first});
  connections_.erase(least);
  return true;
}

// A connection is found by its local number. The message must come from the peer's host and must carry the
// peer's number, once this number is known.
Manager::Connection* Manager::find(CommunicationId local, const Address& source, CommunicationId remote) {
  const auto found = connections_.find(local);
  if (found == connections_.end()) return nullptr;
  Connection& connection = found->second;
  const bool told = connection.state != State::request_sent;
  const bool its = same_host(connection.peer, source) && (!told || connection.remote == remote);
  return its ? &connection : nullptr;
}

void Manager::send_until_answered(Connection& connection, const Message& message, Time now) {
  connection.latest = encode(message);
  connection.repeats = 0;
  wait(connection, timeout_of(kResponseTimeout), now);
  send_latest(connection);
}

void Manager::wait(Connection& connection, Duration time, Time now) {
  connection.deadline = std::min(now + time, connection.end_of_patience);
}

void Manager::end(CommunicationId id, Connection& connection, Time now) {
  if (connection.state == State::ended) return;
  events_.push_back({.kind = Event::Kind::disconnected, .connection = id});
  connection.state = State::ended;
  connection.deadline = now + kTimeWait;
}

void Manager::disconnect(CommunicationId id, Time now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  switch (connection.state) {
    // IBTA vol. 1, 12.9.7.1 and 12.9.7.2: a DREQ ends an established connection and nothing else. A
    // connection that is being made is ended by a REJ, also in the states REP Rcvd and REP Sent.
    case State::request_sent:
    case State::requested:
    case State::accepted:
    case State::reply_sent: reject(id, RejectReason::consumer, now); break;
    case State::established:
      connection.end_of_patience = now + kPatience;
      connection.state = State::disconnect_sent;
      connection.transaction = std::uint64_t{entropy_()} << 32 | entropy_();
      send_until_answered(
          connection,
          {connection.transaction, DisconnectRequest{id, connection.remote, connection.remote_qpn}}, now);
      break;
    case State::disconnect_sent:
    case State::ended: break;
  }
}

void Manager::reject(CommunicationId id, RejectReason reason, Time now) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (connection.state == State::established) return disconnect(id, now);
  if (connection.state == State::disconnect_sent || connection.state == State::ended) return;
  send_reject(id, connection, reason);
  end(id, connection, now);
}

/// Sends a REJ. The REJ names the kind of the message that it answers: the peer's latest message, if that
/// message needs an answer (12.6.7, Message REJected).
void Manager::send_reject(CommunicationId id, Connection& connection, RejectReason reason) {
  const bool replied = connection.state == State::accepted || connection.state == State::ended;
  const auto answered = connection.state == State::requested ? Answered::request
                        : replied                            ? Answered::reply
                                                             : Answered::other;
  connection.latest = encode({connection.transaction, Reject{id, connection.remote, answered, reason, {}}});
  connection.refused = true;
  send_latest(connection);
}

void Manager::on_datagram(const Address& source, std::span<const std::byte> mad, Time now) {
  const auto message = decode(mad);
  if (!message) {
    ++counters_.malformed;
    return;
  }
  std::visit([&](const auto& body) { on_message(source, *message, body, now); }, message->body);
}

// The peer asks for more time. This additional time starts now.
void Manager::on_message(const Address& source, const Message&, const MessageReceived& received, Time now) {
  Connection* const connection = find(received.remote, source, received.local);
  const bool waits = connection != nullptr && connection->latest && connection->deadline != Time::never() &&
                     connection->state != State::ended;
  if (!waits) {
    ++counters_.strays;
    return;
  }
  wait(*connection, timeout_of(received.service_timeout) + timeout_of(kResponseTimeout), now);
  connection->repeats = 0;
}

// A DREQ is answered in every state, even if the connection no longer exists. Otherwise the peer repeats the
// DREQ for a minute.
void Manager::on_message(const Address& source, const Message& message, const DisconnectRequest& request,
                         Time now) {
  send(source, encode({message.transaction, DisconnectReply{request.remote, request.local}}));
  Connection* const connection = find(request.remote, source, request.local);
  if (connection == nullptr) {
    ++counters_.strays;
    return;
  }
  if (connection->state == State::ended) ++counters_.duplicates;
  end(request.remote, *connection, now);
}

void Manager::on_message(const Address& source, const Message&, const DisconnectReply& reply, Time now) {
  Connection* const connection = find(reply.remote, source, reply.local);
  if (connection == nullptr || connection->state != State::disconnect_sent) {
    ++counters_.strays;
    return;
  }
  end(reply.remote, *connection, now);
}

void Manager::on_message(const Address& source, const Message&, const Reject& reject, Time now) {
  Connection* const connection = find(reject.remote, source, reject.local);
  if (connection == nullptr || connection->state == State::ended) {
    ++counters_.strays;
    return;
  }
  // The confirmation of this side was lost, or it arrived after the peer had given up. So the peer has no
  // connection.
  if (connection->state == State::established || connection->state == State::disconnect_sent)
    return end(reject.remote, *connection, now);
  events_.push_back({.kind = Event::Kind::rejected,
                     .connection = reject.remote,
                     .reason = reject.reason,
                     .private_data = reject.private_data});
  connection->state = State::ended;
  connection->deadline = now + kTimeWait;
}

void Manager::give_up(CommunicationId id, Connection& connection, Time now) {
  if (connection.state == State::disconnect_sent) {
    end(id, connection, now);
    return;
  }
  // The peer may be alive, and only its answers may have been lost. After it has received the REJ, it no
  // longer waits for this side.
  send_reject(id, connection, RejectReason::timeout);
  events_.push_back({.kind = Event::Kind::unreachable, .connection = id});
  connection.state = State::ended;
  connection.deadline = now + kTimeWait;
}

void Manager::on_timer(Time now) {
  for (auto next = connections_.begin(); next != connections_.end();) {
    const auto at = next++;
    Connection& connection = at->second;
    if (connection.deadline > now) continue;
    if (connection.state == State::ended) {
      connections_.erase(at);
    } else if (connection.repeats == kRetries || connection.end_of_patience <= now) {
      give_up(at->first, connection, now);
    } else {
      ++connection.repeats;
      ++counters_.repeated;
      wait(connection, timeout_of(kResponseTimeout), now);
      send_latest(connection);
    }
  }
}

Time Manager::next_deadline() const {
  Time earliest = outgoing_.empty() && events_.empty() ? Time::never() : Time{};
  for (const auto& [id, connection] : connections_) earliest = std::min(earliest, connection.deadline);
  return earliest;
}

bool Manager::poll_transmit(Datagram& out) {
  if (outgoing_.empty()) return false;
  out = outgoing_.front();
  outgoing_.pop_front();
  return true;
}

bool Manager::poll_event(Event& out) {
  if (events_.empty()) return false;
  out = std::move(events_.front());
  events_.pop_front();
  return true;
}

}  // namespace rdmc::cm
