#include "dataplane/port/dpdk/neighbours.hpp"

#include <algorithm>

namespace rdmc::port::dpdk {
namespace {

bool is_zero(const Address& address) {
  return std::ranges::all_of(address.bytes, [](std::uint8_t byte) { return byte == 0; });
}

Address without_port(Address address) {
  address.port = 0;
  return address;
}

/// True for a MAC address that one station can have: neither all zeros nor a group address.
bool is_station(const MacAddress& mac) {
  return mac != MacAddress{} && (mac[0] & 1) == 0;
}

MacAddress asking_mac(const Address& target) {
  return target.ipv6 ? group_mac(solicited_node_group(target)) : kBroadcast;
}

const Address kAllNodes{.ipv6 = true, .bytes = {0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

}  // namespace

bool Neighbours::on_link(const Address& address) const {
  const std::size_t whole = ours_.prefix_bits / 8;
  const auto mask = static_cast<std::uint8_t>(0xFF00 >> ours_.prefix_bits % 8);
  if (is_link_local(address)) return true;
  return std::equal(address.bytes.begin(), address.bytes.begin() + static_cast<std::ptrdiff_t>(whole),
                    ours_.ip.bytes.begin()) &&
         (whole == address.bytes.size() || ((address.bytes[whole] ^ ours_.ip.bytes[whole]) & mask) == 0);
}

std::optional<Address> Neighbours::next_hop(const Address& destination) const {
  if (destination.ipv6 != ours_.ip.ipv6) return std::nullopt;
  if (on_link(destination)) return without_port(destination);
  return ours_.gateway;
}

void Neighbours::announce() {
  NeighbourMessage message{.sender = ours_.ip, .sender_mac = ours_.mac, .may_replace = true};
  if (ours_.ip.ipv6) {
    message.kind = NeighbourMessage::Kind::reply;
    message.target = kAllNodes;
    message.target_mac = group_mac(kAllNodes);
  } else {
    message.target = ours_.ip;
    message.target_mac = kBroadcast;
  }
  queue(message);
}

Neighbours::Lookup Neighbours::lookup(const Address& destination, Time now) {
  const auto hop = next_hop(destination);
  if (!hop) return {Lookup::State::unreachable};
  auto found = neighbours_.find(*hop);
  if (found == neighbours_.end()) {
    Neighbour& fresh = insert(*hop, {.state = State::resolving, .used = now});
    request(*hop, fresh, now);
    return {.state = Lookup::State::resolving, .asked_once = true};
  }
  Neighbour& neighbour = found->second;
  neighbour.used = now;
  switch (neighbour.state) {
    case State::known:
      if (now >= neighbour.deadline) {
        neighbour.state = State::probing;
        neighbour.requests = 0;
        request(*hop, neighbour, now);
      }
      return {Lookup::State::known, neighbour.mac};
    case State::probing: return {Lookup::State::known, neighbour.mac};
    case State::resolving:
      return {.state = Lookup::State::resolving,
              .asked_once = neighbour.requests == 1 && now < neighbour.deadline};
    case State::unreachable: break;
  }
  if (now < neighbour.deadline) return {Lookup::State::unreachable};
  neighbour.state = State::resolving;
  neighbour.requests = 0;
  ++generation_;
  request(*hop, neighbour, now);
  return {.state = Lookup::State::resolving, .asked_once = true};
}

void Neighbours::request(const Address& target, Neighbour& neighbour, Time now) {
  queue({.kind = NeighbourMessage::Kind::request,
         .sender = ours_.ip,
         .sender_mac = ours_.mac,
         .target = target,
         .target_mac = neighbour.state == State::probing ? neighbour.mac : asking_mac(target)});
  neighbour.deadline = now + kFirstRetry * (std::int64_t{1} << neighbour.requests);
  ++neighbour.requests;
}

void Neighbours::learn(Neighbour& neighbour, const MacAddress& mac, Time now) {
  if (neighbour.mac != mac || neighbour.state == State::resolving || neighbour.state == State::unreachable)
    ++generation_;
  neighbour.state = State::known;
  neighbour.mac = mac;
  neighbour.deadline = now + kReachableFor;
}

void Neighbours::on_message(const NeighbourMessage& message, Time now) {
  if (message.sender.ipv6 != ours_.ip.ipv6 || !is_station(message.sender_mac) || message.sender == ours_.ip)
    return;
  const bool request = message.kind == NeighbourMessage::Kind::request;
  const bool for_us = message.target == ours_.ip;
  const auto found = neighbours_.find(message.sender);
  if (found != neighbours_.end()) {
    Neighbour& neighbour = found->second;
    const bool has_mac = neighbour.state == State::known || neighbour.state == State::probing;
    // Advertisements without the override flag confirm a known MAC address and never change it (RFC 4861,
    // 7.2.5).
    if (request || message.may_replace || !has_mac || neighbour.mac == message.sender_mac)
      learn(neighbour, message.sender_mac, now);
  } else if (request && for_us && !is_zero(message.sender) && on_link(message.sender)) {
    // A host that asks for the local address is about to send to it (RFC 826).
    learn(insert(message.sender, {.state = State::resolving, .used = now}), message.sender_mac, now);
  }
  if (request && for_us) answer(message);
}

void Neighbours::answer(const NeighbourMessage& request) {
  // True if the sender has no address to which an answer could be sent.
  const bool nobody = is_zero(request.sender) && request.sender.ipv6;
  queue({.kind = NeighbourMessage::Kind::reply,
         .sender = ours_.ip,
         .sender_mac = ours_.mac,
         .target = nobody ? kAllNodes : request.sender,
         .target_mac = nobody ? group_mac(kAllNodes) : request.sender_mac,
         .solicited = !nobody,
         .may_replace = true});
}

Neighbours::Neighbour& Neighbours::insert(const Address& address, Neighbour neighbour) {
  if (neighbours_.size() >= kMostNeighbours) {
    neighbours_.erase(
        std::ranges::min_element(neighbours_, {}, [](const auto& entry) { return entry.second.used; }));
    ++generation_;
  }
  return neighbours_.insert_or_assign(address, neighbour).first->second;
}

void Neighbours::on_timer(Time now) {
  for (auto& [address, neighbour] : neighbours_) {
    if (neighbour.state != State::resolving && neighbour.state != State::probing) continue;
    if (now < neighbour.deadline) continue;
    if (neighbour.requests < kRequests) {
      request(address, neighbour, now);
    } else {
      // If an old MAC address is not confirmed, the next request goes to the broadcast address or the
      // multicast group, because the host may have another network card now.
      const bool was_probing = neighbour.state == State::probing;
      neighbour.state = was_probing ? State::resolving : State::unreachable;
      neighbour.requests = 0;
      ++generation_;
      if (was_probing)
        request(address, neighbour, now);
      else
        neighbour.deadline = now + kUnreachableFor;
    }
  }
}

Time Neighbours::next_deadline() const {
  Time earliest = Time::never();
  for (const auto& [address, neighbour] : neighbours_) {
    if (neighbour.state == State::resolving || neighbour.state == State::probing)
      earliest = std::min(earliest, neighbour.deadline);
  }
  return earliest;
}

void Neighbours::queue(const NeighbourMessage& message) {
  if (queue_.size() < kMostQueued) queue_.push_back(message);
}

std::optional<NeighbourMessage> Neighbours::poll() {
  if (queue_.empty()) return std::nullopt;
  const NeighbourMessage message = queue_.front();
  queue_.pop_front();
  return message;
}

}  // namespace rdmc::port::dpdk
