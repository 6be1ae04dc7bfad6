#include "apps/tools/connection_manager.hpp"

#include "dataplane/base/clock.hpp"

namespace rdmc::tools {

ConnectionManager::ConnectionManager(ForeignHost& host)
    : host_(host),
      queue_pair_(*host.software()),
      manager_(
          host.port().info().address, [random = host.random()] { return random.next32(); },
          host.traffic_class()) {
  host_.engine().add(*this);
}

ConnectionManager::~ConnectionManager() {
  host_.engine().remove(*this);
}

std::size_t ConnectionManager::work(Time now) {
  std::size_t done = 0;
  for (fabric::ManagementDatagram received; queue_pair_.poll(received); ++done)
    manager_.on_datagram(received.peer, received.mad, now);
  manager_.on_timer(now);
  for (cm::Datagram outgoing; manager_.poll_transmit(outgoing); ++done)
    queue_pair_.send({.peer = outgoing.peer, .mad = outgoing.mad});
  for (cm::Event event; manager_.poll_event(event); ++done) sort(std::move(event));
  return done;
}

void ConnectionManager::sort(cm::Event event) {
  if (event.kind == cm::Event::Kind::requested) {
    requests_.push_back(std::move(event));
    return;
  }
  const auto is_of_it = [&](const cm::Event& request) { return request.connection == event.connection; };
  if (std::erase_if(requests_, is_of_it) == 0) events_.push_back(std::move(event));
}

void ConnectionManager::reject(cm::CommunicationId connection, cm::RejectReason reason) {
  const Time now = monotonic_now();
  manager_.reject(connection, reason, now);
  work(now);
}

void ConnectionManager::disconnect(cm::CommunicationId connection) {
  const Time now = monotonic_now();
  manager_.disconnect(connection, now);
  work(now);
}

}  // namespace rdmc::tools
