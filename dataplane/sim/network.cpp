#include "dataplane/sim/network.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rdmc::sim {
namespace {

// The part of a datagram's path that follows the link on which the datagram is now. The sender's link is the
// first part of every path. No other part precedes it, so it is not in this list.
enum Hop : std::uint8_t { kRackUp, kRackDown, kIngress, kDelivery };

// The kinds of events. `wire`: the first datagram on a wire arrives. `datagram`: a datagram arrives that is
// on no wire, because of a fault or because it stays in its host. `wake`: a process must be woken. The low
// half of the event's argument is the id of the wire, datagram or process.
enum class NetworkEvent : std::uint64_t { wire, datagram, wake };

template <typename Id>
constexpr std::uint64_t argument_of(NetworkEvent kind, Id id) {
  return static_cast<std::uint64_t>(kind) << 32 | value_of(id);
}

constexpr std::uint16_t kFirstDynamicPort = 49152;

Address host_address(std::size_t index) {
  const std::size_t number = index + 1;
  return Address::ipv4(10, static_cast<std::uint8_t>(number >> 16), static_cast<std::uint8_t>(number >> 8),
                       static_cast<std::uint8_t>(number), 0);
}

}  // namespace

std::size_t Network::AddressHash::operator()(const Address& address) const {
  return digest(address.bytes.data(), address.bytes.size());
}

Network::Network(Simulation& simulation) : simulation_(simulation), random_(simulation.random().next()) {
  add_rack({.delay = {}});  // never used, because hosts of rack 0 have no uplink
}

Network::WireId Network::add_wire(const LinkOptions& options) {
  wires_.emplace_back(options);
  return WireId{static_cast<std::uint32_t>(wires_.size() - 1)};
}

RackId Network::add_rack(const LinkOptions& uplink) {
  racks_.push_back(Rack{.up = add_wire(uplink), .down = add_wire(uplink)});
  return RackId{static_cast<std::uint32_t>(racks_.size() - 1)};
}

HostId Network::add_host(const HostOptions& options) {
  const auto id = HostId{static_cast<std::uint32_t>(hosts_.size())};
  Address address = options.address.value_or(host_address(hosts_.size()));
  address.port = 0;
  const bool added = by_address_.emplace(address, id).second;
  assert(added && "two hosts with one address");
  static_cast<void>(added);
  hosts_.push_back(Host{.address = address,
                        .rack = options.rack,
                        .egress = add_wire(options.link),
                        .ingress = add_wire(options.link),
                        .loopback = options.loopback,
                        .ports = {}});
  return id;
}

bool Network::bind(ProcessId owner, std::uint16_t port, Socket& socket) {
  Binding& binding = host(simulation_.host(owner)).ports[port];
  if (binding.socket != nullptr && simulation_.state(binding.owner) != ProcessState::killed) return false;
  binding = {&socket, owner};
  return true;
}

std::uint16_t Network::bind_any(ProcessId owner, Socket& socket) {
  Host& h = host(simulation_.host(owner));
  for (;;) {
    const std::uint16_t port = h.next_port;
    h.next_port = port == 0xFFFF ? kFirstDynamicPort : static_cast<std::uint16_t>(port + 1);
    if (bind(owner, port, socket)) return port;
  }
}

void Network::unbind(ProcessId owner, std::uint16_t port, const Socket& socket) {
  auto& ports = host(simulation_.host(owner)).ports;
  const auto found = ports.find(port);
  if (found != ports.end() && found->second.socket == &socket) ports.erase(found);
}

DatagramId Network::allocate(std::uint32_t size) {
  if (free_.empty()) {
    pool_.emplace_back();
    free_.push_back(DatagramId{static_cast<std::uint32_t>(pool_.size() - 1)});
  }
  const DatagramId id = free_.back();
  free_.pop_back();
  Datagram& datagram = (*this)[id];
  if (datagram.capacity < size) {
    datagram.memory = std::make_unique_for_overwrite<std::byte[]>(size);
    datagram.capacity = size;
  }
  datagram.size = size;
  datagram.ecn_capable = datagram.congestion_experienced = false;
  return id;
}

DatagramId Network::copy_of(DatagramId id) {
  const DatagramId copy = allocate((*this)[id].size);
  Datagram& to = (*this)[copy];
  const Datagram& from = (*this)[id];
  to.source = from.source;
  to.destination = from.destination;
  to.ecn_capable = from.ecn_capable;
  to.congestion_experienced = from.congestion_experienced;
  to.from = from.from;
  to.to = from.to;
  to.hop = from.hop;
  to.digest = from.digest;
  std::memcpy(to.memory.get(), from.memory.get(), from.size);
  return copy;
}

void Network::send(HostId from, DatagramId id) {
  Datagram& datagram = (*this)[id];
  datagram.from = from;
  datagram.digest = digest(datagram.memory.get(), datagram.size);
  ++counters_.sent;
  Address to = datagram.destination;
  to.port = 0;
  const auto found = by_address_.find(to);
  if (found == by_address_.end()) {
    ++counters_.unreachable;
    release(id);
    return;
  }
  datagram.to = found->second;
  simulation_.trace().record(simulation_.now(), TraceKind::datagram_sent, value_of(from),
                             value_of(datagram.to), datagram.digest);
  const Host& source = host(from);
  if (datagram.to == from) {
    datagram.hop = kDelivery;
    simulation_.schedule(simulation_.now() + source.loopback, *this, argument_of(NetworkEvent::datagram, id));
    return;
  }
  const auto arrival = pass(source.egress, id);
  if (!arrival) return;
  if (!reaches(from, datagram.to)) return drop(id, Fault::partition);
  const RackId to_rack = host(datagram.to).rack;
  datagram.hop = source.rack == to_rack ? kIngress : value_of(source.rack) != 0 ? kRackUp : kRackDown;

  const Fate fate = draw_fate(rates_, random_, simulation_.faults());
  if (fate.lost) return lose(id, Fault::loss);
  if (fate.duplicated)
    simulation_.schedule(*arrival + fate.duplicate_extra, *this,
                         argument_of(NetworkEvent::datagram, copy_of(id)));
  if (fate.corrupted && datagram.size > 0) {
    corrupt(datagram.bytes(), random_);
    datagram.digest = digest(datagram.memory.get(), datagram.size);
  }
  if (fate.extra > Duration{})
    simulation_.schedule(*arrival + fate.extra, *this, argument_of(NetworkEvent::datagram, id));
  else
    put_on(source.egress, *arrival, id);
}

void Network::drop(DatagramId id, Fault fault) {
  simulation_.faults().add(fault);
  lose(id, fault);
}

void Network::lose(DatagramId id, Fault fault) {
  const Datagram& datagram = (*this)[id];
  simulation_.trace().record(simulation_.now(), TraceKind::datagram_lost, value_of(datagram.from),
                             value_of(datagram.to), static_cast<std::uint64_t>(fault));
  release(id);
}

std::optional<Time> Network::pass(WireId on, DatagramId id) {
  Datagram& datagram = (*this)[id];
  const auto passage = wire(on).link.pass(simulation_.now(), datagram.size + kDatagramOverhead, random_);
  if (!passage) {
    drop(id, Fault::queue_full);
    return std::nullopt;
  }
  wire(on).bytes += datagram.size + kDatagramOverhead;
  if (passage->marked && datagram.ecn_capable && !datagram.congestion_experienced) {
    datagram.congestion_experienced = true;
    ++counters_.marked;
  }
  return passage->arrival;
}

void Network::put_on(WireId on, Time arrival, DatagramId id) {
  auto& under_way = wire(on).under_way;
  under_way.push_back({arrival, id});
  if (under_way.size() == 1) simulation_.schedule(arrival, *this, argument_of(NetworkEvent::wire, on));
}

void Network::on_event(std::uint64_t argument) {
  const auto value = static_cast<std::uint32_t>(argument);
  switch (static_cast<NetworkEvent>(argument >> 32)) {
    case NetworkEvent::wake: return simulation_.wake(ProcessId{value});
    case NetworkEvent::datagram: return arrive(DatagramId{value});
    case NetworkEvent::wire: break;
  }
  auto& under_way = wire(WireId{value}).under_way;
  const DatagramId first = under_way.front().id;
  under_way.pop_front();
  if (!under_way.empty()) simulation_.schedule(under_way.front().arrival, *this, argument);
  arrive(first);
}

void Network::arrive(DatagramId id) {
  if ((*this)[id].hop == kDelivery)
    deliver(id);
  else
    forward(id);
}

void Network::forward(DatagramId id) {
  Datagram& datagram = (*this)[id];
  const Host& destination = host(datagram.to);
  WireId next = destination.ingress;
  switch (datagram.hop) {
    case kRackUp:
      next = racks_[value_of(host(datagram.from).rack)].up;
      datagram.hop = value_of(destination.rack) != 0 ? kRackDown : kIngress;
      break;
    case kRackDown:
      next = racks_[value_of(destination.rack)].down;
      datagram.hop = kIngress;
      break;
    default: datagram.hop = kDelivery; break;
  }
  if (const auto arrival = pass(next, id)) put_on(next, *arrival, id);
}

void Network::deliver(DatagramId id) {
  const Datagram& datagram = (*this)[id];
  const auto& ports = host(datagram.to).ports;
  const auto found = ports.find(datagram.destination.port);
  if (found == ports.end() || simulation_.state(found->second.owner) == ProcessState::killed) {
    ++counters_.unreachable;
    release(id);
    return;
  }
  ++counters_.delivered;
  simulation_.trace().record(simulation_.now(), TraceKind::datagram_delivered, value_of(datagram.from),
                             value_of(datagram.to), datagram.digest);
  found->second.socket->deliver(id);
}

std::uint64_t Network::send_backlog(HostId id) const {
  return wire(host(id).egress).link.backlog_bytes(simulation_.now());
}

std::uint64_t Network::received_bytes(HostId id) const {
  return wire(host(id).ingress).bytes;
}

void Network::wake_when_drained(ProcessId process, std::uint64_t bytes) {
  const Time when = wire(host(simulation_.host(process)).egress).link.drained_to(bytes);
  simulation_.schedule(std::max(simulation_.now(), when), *this, argument_of(NetworkEvent::wake, process));
}

Duration Network::delay(HostId from, HostId to) const {
  const Host& a = host(from);
  const Host& b = host(to);
  if (from == to) return a.loopback;
  Duration total = wire(a.egress).delay + wire(b.ingress).delay;
  if (a.rack != b.rack) {
    if (value_of(a.rack) != 0) total = total + wire(racks_[value_of(a.rack)].up).delay;
    if (value_of(b.rack) != 0) total = total + wire(racks_[value_of(b.rack)].down).delay;
  }
  return total;
}

}  // namespace rdmc::sim
