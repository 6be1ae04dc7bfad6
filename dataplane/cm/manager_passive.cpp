// The functions of the accepting side. This side makes one connection for each request, however often the
// request arrives. It repeats its reply until the peer is known to be ready.
#include <algorithm>

#include "dataplane/cm/constants.hpp"
#include "dataplane/cm/manager.hpp"

namespace rdmc::cm {

Result<void> Manager::listen(std::uint16_t port) {
  if (!listening_.insert(port).second)
    return fail(Errc::already_exists, "port " + std::to_string(port) + " is listened on already");
  return {};
}

void Manager::on_message(const Address& source, const Message& message, const Request& request, Time now) {
  const auto known = std::ranges::find_if(connections_, [&](const auto& entry) {
    const Connection& one = entry.second;
    return one.state != State::request_sent && one.remote == request.local &&
           one.remote_qpn == request.queue_pair.qpn && one.peer.ipv6 == source.ipv6 &&
           one.peer.bytes == source.bytes;
  });
  if (known != connections_.end()) {
    ++counters_.duplicates;
    // Before accept() or reject() is called, there is no answer that could be repeated. Either the peer
    // repeats its request later, or this side answers in time.
    if (known->second.state == State::reply_sent || known->second.state == State::ended)
      send_latest(known->second);
    return;
  }
  const auto refuse = [&](RejectReason reason) {
    send(source, encode({message.transaction, Reject{{}, request.local, Answered::request, reason, {}}}));
  };
  const auto port = static_cast<std::uint16_t>(request.service_id);
  if (request.service_id != service_of(port) || !listening_.contains(port)) {
    refuse(RejectReason::invalid_service_id);
    return;
  }
  // The request contains the peer's address twice. Both copies must be the address that the datagram came
  // from.
  const auto header = decode_ip_header(request.private_data);
  const auto is_senders = [&](const Address& said) {
    return said.ipv6 == source.ipv6 && said.bytes == source.bytes;
  };
  if (!header || !is_senders(header->source) || !is_senders(request.local_address)) {
    ++counters_.malformed;
    refuse(RejectReason::consumer);
    return;
  }
  if (!make_room()) {
    refuse(RejectReason::no_resources);
    return;
  }
  const CommunicationId id = fresh_id();
  connections_[id] = {.state = State::requested,
                      .peer = source,
                      .remote = request.local,
                      .remote_qpn = request.queue_pair.qpn,
                      .asked_responder_resources = request.queue_pair.responder_resources,
                      .asked_initiator_depth = request.queue_pair.initiator_depth,
                      .transaction = message.transaction,
                      .path_mtu = request.path_mtu,
                      .end_of_patience = now + kPatience};
  // If the driver never answers, the connection is removed at a time when the peer must have given up, too.
  wait(connections_[id], timeout_of(request.response_timeout) * (request.cm_retries + 1), now);
  connections_[id].repeats = kRetries;
  events_.push_back(
      {.kind = Event::Kind::requested,
       .connection = id,
       .peer = header->source,
       .port = port,
       .peer_queue_pair = request.queue_pair,
       .path_mtu = request.path_mtu,
       .private_data = {request.private_data.begin() + kIpHeaderBytes, request.private_data.end()}});
}

void Manager::accept(CommunicationId id, const QueuePairParameters& ours, Time now) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.state != State::requested) return;
  Connection& connection = found->second;
  connection.state = State::reply_sent;
  connection.local_qpn = ours.qpn;
  QueuePairParameters agreed = ours;
  agreed.responder_resources = std::min(ours.responder_resources, connection.asked_initiator_depth);
  agreed.initiator_depth = std::min(ours.initiator_depth, connection.asked_responder_resources);
  send_until_answered(
      connection,
      {connection.transaction, Reply{.local = id, .remote = connection.remote, .queue_pair = agreed}}, now);
}

void Manager::on_message(const Address& source, const Message&, const ReadyToUse& ready, Time) {
  Connection* const connection = find(ready.remote, source, ready.local);
  if (connection == nullptr) {
    ++counters_.strays;
  } else if (connection->state == State::reply_sent) {
    establish(ready.remote, *connection);
  } else {
    ++counters_.duplicates;
    // The peer is ready for a connection that this side has given up. So the rejection was lost, or it was in
    // flight at the same time as the peer's message.
    if (connection->refused) send_latest(*connection);
  }
}

// IBTA vol. 1, 12.9.7.2: a packet on the queue pair means the same as the message ReadyToUse.
void Manager::on_data(CommunicationId id, Time) {
  const auto found = connections_.find(id);
  if (found != connections_.end() && found->second.state == State::reply_sent) establish(id, found->second);
}

void Manager::establish(CommunicationId id, Connection& connection) {
  connection.state = State::established;
  connection.deadline = Time::never();
  events_.push_back({.kind = Event::Kind::established, .connection = id, .peer = connection.peer});
}

}  // namespace rdmc::cm
