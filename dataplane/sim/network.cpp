#include "dataplane/sim/network.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rdmc::sim {
namespace {

// Where a datagram goes next, when it has left the last link. Only the first is taken at once, by the sender.
enum Hop : std::uint8_t { kRackUp, kRackDown, kIngress, kDelivery };

// An event's argument is a datagram, or with this bit a process to wake.
constexpr std::uint64_t kWakeFlag = std::uint64_t{1} << 32;

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
  const LinkOptions none;
  racks_.push_back(Rack{Link(none), Link(none), Duration{}});
}

RackId Network::add_rack(const LinkOptions& uplink) {
  racks_.push_back(Rack{Link(uplink), Link(uplink), uplink.delay});
  return RackId{static_cast<std::uint32_t>(racks_.size() - 1)};
}

HostId Network::add_host(const HostOptions& options) {
  const auto id = HostId{static_cast<std::uint32_t>(hosts_.size())};
  Address address = options.address.value_or(host_address(hosts_.size()));
  address.port = 0;
  hosts_.push_back(Host{.address = address,
                        .rack = options.rack,
                        .egress = Link(options.link),
                        .ingress = Link(options.link),
                        .one_way = options.link.delay,
                        .loopback = options.loopback});
  const bool added = by_address_.emplace(address, id).second;
  assert(added && "two hosts with one address");
  static_cast<void>(added);
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
  Host& source = host(from);
  if (datagram.to == from) {
    datagram.hop = kDelivery;
    simulation_.schedule(simulation_.now() + source.loopback, *this, value_of(id));
    return;
  }
  Time arrival;
  if (!pass(source.egress, id, arrival)) return;
  if (!reaches(from, datagram.to)) return drop(id, Fault::partition);
  datagram.hop = source.rack == host(datagram.to).rack ? kIngress
                 : value_of(source.rack) != 0          ? kRackUp
                                                       : kRackDown;

  const Fate fate = draw_fate(rates_, random_, simulation_.faults());
  if (fate.duplicated) {
    const DatagramId copy = copy_of(id);
    simulation_.schedule(arrival + fate.duplicate_extra, *this, value_of(copy));
  }
  if (fate.lost) {
    simulation_.trace().record(simulation_.now(), TraceKind::datagram_lost, value_of(from),
                               value_of(datagram.to), static_cast<std::uint64_t>(Fault::loss));
    release(id);
    return;
  }
  if (fate.corrupted && datagram.size > 0) {
    corrupt(datagram.bytes(), random_);
    datagram.digest = digest(datagram.memory.get(), datagram.size);
  }
  simulation_.schedule(arrival + fate.extra, *this, value_of(id));
}

void Network::drop(DatagramId id, Fault fault) {
  const Datagram& datagram = (*this)[id];
  simulation_.faults().add(fault);
  simulation_.trace().record(simulation_.now(), TraceKind::datagram_lost, value_of(datagram.from),
                             value_of(datagram.to), static_cast<std::uint64_t>(fault));
  release(id);
}

bool Network::pass(Link& link, DatagramId id, Time& arrival) {
  Datagram& datagram = (*this)[id];
  const auto passage = link.pass(simulation_.now(), datagram.size + kDatagramOverhead, random_);
  if (!passage) {
    drop(id, Fault::queue_full);
    return false;
  }
  if (passage->marked && datagram.ecn_capable && !datagram.congestion_experienced) {
    datagram.congestion_experienced = true;
    ++counters_.marked;
  }
  arrival = passage->arrival;
  return true;
}

void Network::on_event(std::uint64_t argument) {
  if ((argument & kWakeFlag) != 0) {
    simulation_.wake(ProcessId{static_cast<std::uint32_t>(argument)});
    return;
  }
  const auto id = DatagramId{static_cast<std::uint32_t>(argument)};
  if ((*this)[id].hop == kDelivery)
    deliver(id);
  else
    arrive(id);
}

void Network::arrive(DatagramId id) {
  Datagram& datagram = (*this)[id];
  Host& destination = host(datagram.to);
  Link* link = nullptr;
  switch (datagram.hop) {
    case kRackUp:
      link = &racks_[value_of(host(datagram.from).rack)].up;
      datagram.hop = value_of(destination.rack) != 0 ? kRackDown : kIngress;
      break;
    case kRackDown:
      link = &racks_[value_of(destination.rack)].down;
      datagram.hop = kIngress;
      break;
    default:
      link = &destination.ingress;
      datagram.hop = kDelivery;
      break;
  }
  Time arrival;
  if (pass(*link, id, arrival)) simulation_.schedule(arrival, *this, value_of(id));
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
  return host(id).egress.backlog_bytes(simulation_.now());
}

void Network::wake_when_drained(ProcessId process, std::uint64_t bytes) {
  const Time when = host(simulation_.host(process)).egress.drained_to(bytes);
  simulation_.schedule(std::max(simulation_.now(), when), *this, kWakeFlag | value_of(process));
}

Duration Network::delay(HostId from, HostId to) const {
  const Host& a = host(from);
  const Host& b = host(to);
  if (from == to) return a.loopback;
  Duration total = a.one_way + b.one_way;
  if (a.rack != b.rack) total = total + racks_[value_of(a.rack)].one_way + racks_[value_of(b.rack)].one_way;
  return total;
}

}  // namespace rdmc::sim
