// The functions of the requesting side. This side repeats its request until a reply or a rejection arrives,
// and it confirms a reply.
#include <bit>

#include "dataplane/cm/constants.hpp"
#include "dataplane/cm/manager.hpp"

namespace rdmc::cm {

Result<CommunicationId> Manager::connect(const Address& peer, const QueuePairParameters& ours,
                                         std::uint32_t path_mtu, Time now) {
  if (!std::has_single_bit(path_mtu) || path_mtu < 256 || path_mtu > 4096)
    return fail(Errc::invalid_argument, "no path MTU: " + std::to_string(path_mtu));
  if (peer.ipv6 != address_.ipv6) return fail(Errc::invalid_argument, "one side has IPv4, the other IPv6");
  if (!make_room()) return fail(Errc::resource_limit, "too many connections");
  const CommunicationId id = fresh_id();
  Connection& connection = connections_[id];
  connection.state = State::request_sent;
  connection.end_of_patience = now + kPatience;
  connection.peer = peer;
  connection.local_qpn = ours.qpn;
  connection.path_mtu = path_mtu;
  connection.transaction = std::uint64_t{entropy_()} << 32 | entropy_();
  const auto header = encode(IpHeader{address_, peer});
  send_until_answered(connection,
                      {connection.transaction, Request{.local = id,
                                                       .service_id = service_of(peer.port),
                                                       .adapter_guid = 0,
                                                       .queue_pair = ours,
                                                       .response_timeout = kResponseTimeout,
                                                       .cm_retries = kRetries,
                                                       .path_mtu = path_mtu,
                                                       .ack_timeout = kAckTimeout,
                                                       .local_address = address_,
                                                       .remote_address = peer,
                                                       .traffic_class = traffic_class_,
                                                       .private_data = {header.begin(), header.end()}}},
                      now);
  return id;
}

void Manager::on_message(const Address& source, const Message&, const Reply& reply, Time) {
  // This side gave up before the peer replied. Now the reply has shown the peer's number of the connection.
  // So the rejection is sent again, with this number.
  if (const auto found = connections_.find(reply.remote);
      found != connections_.end() && found->second.refused && found->second.state == State::ended &&
      found->second.remote == CommunicationId{} && same_host(found->second.peer, source)) {
    found->second.remote = reply.local;
    return send_reject(reply.remote, found->second, RejectReason::timeout);
  }
  Connection* const connection = find(reply.remote, source, reply.local);
  if (connection == nullptr) {
    ++counters_.strays;
    return;
  }
  if (connection->state != State::request_sent) {
    ++counters_.duplicates;
    // The confirmation or the rejection of this side was lost. If neither of them was sent yet, there is
    // nothing to repeat.
    if (connection->state == State::established || connection->refused) send_latest(*connection);
    return;
  }
  connection->state = State::accepted;
  connection->remote = reply.local;
  connection->remote_qpn = reply.queue_pair.qpn;
  connection->deadline = Time::never();
  events_.push_back({.kind = Event::Kind::accepted,
                     .connection = reply.remote,
                     .peer = connection->peer,
                     .peer_queue_pair = reply.queue_pair,
                     .path_mtu = connection->path_mtu,
                     .private_data = reply.private_data});
}

void Manager::confirm(CommunicationId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.state != State::accepted) return;
  Connection& connection = found->second;
  connection.latest = encode({connection.transaction, ReadyToUse{id, connection.remote}});
  send_latest(connection);
  establish(id, connection);
}

}  // namespace rdmc::cm
