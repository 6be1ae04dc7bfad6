// Two hosts in virtual time, and a network between them. Each host has a connection manager and a driver that
// accepts all requests.
#pragma once

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <vector>

#include "dataplane/base/random.hpp"
#include "dataplane/cm/manager.hpp"

namespace rdmc::cm::testing {

inline constexpr std::uint16_t kPort = 7174;
inline constexpr Duration kDelay = milliseconds(1);

/// One host: its manager, and the events that its driver has received.
struct Host {
  Host(std::uint8_t number, std::uint64_t seed)
      : random(seed),
        address(Address::ipv4(10, 0, 0, number, 0)),
        manager(address, [this] { return static_cast<std::uint32_t>(random.next()); }) {}

  std::size_t count(Event::Kind kind) const {
    return static_cast<std::size_t>(std::ranges::count(events, kind, &Event::kind));
  }
  const Event& last(Event::Kind kind) const {
    const auto found =
        std::find_if(events.rbegin(), events.rend(), [&](const Event& e) { return e.kind == kind; });
    BOOST_REQUIRE((found != events.rend()));
    return *found;
  }

  Random random;
  Address address;
  Manager manager;
  std::vector<Event> events;
  /// True if the driver accepts requests, and confirms accepted connections, at once.
  bool answers = true;
};

/// Two hosts and a network that loses and duplicates datagrams.
struct World {
  explicit World(std::uint64_t seed, std::uint32_t loss = 0, std::uint32_t doubled = 0)
      : random(seed), loss_(loss), doubled_(doubled), a(1, seed + 1), b(2, seed + 2) {}

  void carry(Host& from, Host& to) {
    for (Datagram datagram; from.manager.poll_transmit(datagram);) {
      BOOST_REQUIRE((datagram.peer.bytes == to.address.bytes));
      const int copies = random.chance(loss_) ? 0 : random.chance(doubled_) ? 2 : 1;
      for (int i = 0; i < copies; ++i) to.manager.on_datagram(from.address, datagram.mad, now);
    }
  }
  void drive(Host& host) {
    for (Event event; host.manager.poll_event(event);) {
      host.events.push_back(event);
      if (!host.answers) continue;
      if (event.kind == Event::Kind::requested)
        host.manager.accept(
            event.connection,
            {.qpn = Qpn{0x222}, .starting_psn = Psn(22), .responder_resources = 16, .initiator_depth = 1},
            now);
      if (event.kind == Event::Kind::accepted) host.manager.confirm(event.connection);
    }
  }
  /// Runs for the time `limit`.
  void run(Duration limit = seconds(100)) {
    const Time end = now + limit;
    for (;;) {
      for (int i = 0; i < 4; ++i) {
        carry(a, b);
        drive(b);
        carry(b, a);
        drive(a);
      }
      const Time next = std::min(a.manager.next_deadline(), b.manager.next_deadline());
      if (next > end) break;
      now = std::max(now + kDelay, next);
      a.manager.on_timer(now);
      b.manager.on_timer(now);
    }
    now = end;
  }
  CommunicationId connect() {
    Address to = b.address;
    to.port = kPort;
    const auto id = a.manager.connect(
        to, {.qpn = Qpn{0x111}, .starting_psn = Psn(11), .responder_resources = 4, .initiator_depth = 3},
        1024, now);
    BOOST_REQUIRE(id);
    return *id;
  }

  Random random;
  std::uint32_t loss_, doubled_;
  Time now{1'000'000'000};
  Host a, b;
};

}  // namespace rdmc::cm::testing
