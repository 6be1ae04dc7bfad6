#include "dataplane/cm/manager.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "tests/dataplane/cm/world.hpp"

BOOST_AUTO_TEST_SUITE(manager_test)

using namespace rdmc;
using namespace rdmc::cm;
using namespace rdmc::cm::testing;

BOOST_AUTO_TEST_CASE(both_sides_learn_each_others_queue_pair_and_then_that_both_are_ready) {
  World world(1);
  BOOST_REQUIRE(world.b.manager.listen(kPort));
  BOOST_TEST(!world.b.manager.listen(kPort));
  world.connect();
  world.run(seconds(1));
  const Event& requested = world.b.last(Event::Kind::requested);
  BOOST_TEST(
      (requested.peer_queue_pair.qpn == Qpn{0x111} && requested.peer_queue_pair.starting_psn == Psn(11)));
  BOOST_TEST(requested.path_mtu == 1024u);
  BOOST_TEST(requested.port == kPort);
  const Event& accepted = world.a.last(Event::Kind::accepted);
  BOOST_TEST(
      (accepted.peer_queue_pair.qpn == Qpn{0x222} && accepted.peer_queue_pair.starting_psn == Psn(22)));
  // The reply allows each side as many READs as both sides can handle.
  BOOST_TEST(requested.peer_queue_pair.responder_resources == 4u);
  BOOST_TEST(accepted.peer_queue_pair.responder_resources == 3u);
  BOOST_TEST(accepted.peer_queue_pair.initiator_depth == 1u);
  BOOST_TEST(world.a.count(Event::Kind::established) == 1u);
  BOOST_TEST(world.b.count(Event::Kind::established) == 1u);
  BOOST_TEST((world.a.manager.next_deadline() == Time::never()));
}

// Whichever messages are lost or duplicated, exactly one connection is made, and it ends once on each side.
BOOST_AUTO_TEST_CASE(loss_and_duplication_cost_time_but_neither_connections_nor_their_ends) {
  BOOST_TEST(rc::check([](std::uint64_t seed, bool from_a) {
    World world(seed, 200'000, 200'000);
    BOOST_REQUIRE(world.b.manager.listen(kPort));
    const CommunicationId id = world.connect();
    world.run();
    RC_ASSERT(world.a.count(Event::Kind::established) == 1u);
    RC_ASSERT(world.b.count(Event::Kind::requested) == 1u);
    RC_ASSERT(world.b.count(Event::Kind::established) == 1u);
    (from_a ? world.a : world.b).manager.disconnect(from_a ? id : world.b.events[0].connection, world.now);
    world.run();
    RC_ASSERT(world.a.count(Event::Kind::disconnected) == 1u);
    RC_ASSERT(world.b.count(Event::Kind::disconnected) == 1u);
    RC_ASSERT(world.a.manager.next_deadline() == Time::never());  // The manager keeps no data.
    RC_ASSERT(world.b.manager.next_deadline() == Time::never());
  }));
}

BOOST_AUTO_TEST_CASE(a_request_names_the_traffic_class_of_our_packets) {
  Manager manager(
      Address::ipv4(10, 0, 0, 1, 0), [] { return 7U; }, 46 << 2);
  BOOST_REQUIRE(manager.connect(Address::ipv4(10, 0, 0, 2, kPort), {.qpn = Qpn{0x111}}, 1024, Time{1}));
  Datagram sent;
  BOOST_REQUIRE(manager.poll_transmit(sent));
  BOOST_TEST(std::get<Request>(decode(sent.mad)->body).traffic_class == 46 << 2);
}

BOOST_AUTO_TEST_CASE(a_port_that_nobody_listens_on_is_rejected_as_such) {
  World world(2);
  world.connect();
  world.run(seconds(1));
  BOOST_TEST((world.a.last(Event::Kind::rejected).reason == RejectReason::invalid_service_id));
  BOOST_TEST(world.b.events.empty());
}

BOOST_AUTO_TEST_CASE(a_program_that_says_no_is_heard) {
  World world(3);
  world.b.answers = false;
  BOOST_REQUIRE(world.b.manager.listen(kPort));
  world.connect();
  world.run(milliseconds(100));
  world.b.manager.reject(world.b.last(Event::Kind::requested).connection, RejectReason::consumer, world.now);
  world.run(milliseconds(100));
  BOOST_TEST((world.a.last(Event::Kind::rejected).reason == RejectReason::consumer));
}

// IBTA vol. 1, 12.9.7.1 and 12.9.7.2: a DREQ is only for an established connection. So a connection that is
// still being made is ended by a REJ.
BOOST_AUTO_TEST_CASE(what_is_being_made_is_ended_by_a_rejection_and_what_is_made_by_a_disconnection) {
  for (const bool confirmed : {false, true}) {
    for (const bool by_client : {false, true}) {
      World world(12);
      world.a.answers = confirmed;
      BOOST_REQUIRE(world.b.manager.listen(kPort));
      const CommunicationId id = world.connect();
      world.run(milliseconds(100));
      Host& ends = by_client ? world.a : world.b;
      Host& other = by_client ? world.b : world.a;
      ends.manager.disconnect(by_client ? id : world.b.events[0].connection, world.now);
      Datagram sent;
      BOOST_REQUIRE(ends.manager.poll_transmit(sent));
      const Message said = *decode(sent.mad);
      BOOST_TEST(std::holds_alternative<DisconnectRequest>(said.body) == confirmed);
      const auto* const reject = std::get_if<Reject>(&said.body);
      BOOST_TEST((reject != nullptr) == !confirmed);
      if (reject != nullptr)
        BOOST_TEST((reject->answered == (by_client ? Answered::reply : Answered::other)));
      other.manager.on_datagram(ends.address, sent.mad, world.now);
      world.run(seconds(1));
      BOOST_TEST(other.count(confirmed ? Event::Kind::disconnected : Event::Kind::rejected) == 1u);
      BOOST_TEST(ends.count(Event::Kind::disconnected) == 1u);
    }
  }
}

BOOST_AUTO_TEST_CASE(who_believes_in_a_connection_that_was_given_up_is_told) {
  World world(13);
  world.a.answers = false;
  BOOST_REQUIRE(world.b.manager.listen(kPort));
  const CommunicationId id = world.connect();
  world.run(milliseconds(100));
  world.b.manager.reject(world.b.events[0].connection, RejectReason::timeout, world.now);
  for (Datagram lost; world.b.manager.poll_transmit(lost);) continue;
  world.a.manager.confirm(id);
  world.run(milliseconds(100));
  BOOST_TEST(world.a.count(Event::Kind::disconnected) == 1u);
}

BOOST_AUTO_TEST_CASE(who_replies_to_what_was_given_up_is_told_although_the_first_word_of_it_was_lost) {
  for (const bool before_the_reply : {false, true}) {
    World world(14);
    world.a.answers = false;
    world.b.answers = !before_the_reply;
    BOOST_REQUIRE(world.b.manager.listen(kPort));
    const CommunicationId id = world.connect();
    world.run(milliseconds(100));
    world.a.manager.disconnect(id, world.now);
    for (Datagram lost; world.a.manager.poll_transmit(lost);) continue;
    if (before_the_reply)
      world.b.manager.accept(world.b.events[0].connection, {.qpn = Qpn{0x222}, .starting_psn = Psn(22)},
                             world.now);
    // The manager repeats a reply for 18 s if no answer arrives. Here the rejection must end this.
    world.run(seconds(5));
    BOOST_TEST(world.b.count(Event::Kind::rejected) == 1u);
  }
}

/// This happens if the confirmation and a packet that makes the queue pair fail arrive together.
BOOST_AUTO_TEST_CASE(a_connection_that_was_made_a_moment_before_its_rejection_ends_all_the_same) {
  World world(15);
  BOOST_REQUIRE(world.b.manager.listen(kPort));
  world.connect();
  world.run(milliseconds(100));
  world.b.manager.reject(world.b.events[0].connection, RejectReason::timeout, world.now);
  world.run(seconds(100));
  BOOST_TEST(world.a.count(Event::Kind::disconnected) == 1u);
  BOOST_TEST(world.b.count(Event::Kind::disconnected) == 1u);
  BOOST_TEST(world.b.manager.connections() == 0u);
}

BOOST_AUTO_TEST_CASE(a_peer_that_never_answers_is_unreachable_after_a_bounded_time) {
  World world(4, 1'000'000);
  world.connect();
  world.run(seconds(20));
  BOOST_TEST(world.a.count(Event::Kind::unreachable) == 1u);
  BOOST_TEST(world.a.manager.counters().repeated == 15u);
}

BOOST_AUTO_TEST_CASE(a_first_packet_means_as_much_as_a_confirmation_that_was_lost) {
  World world(5);
  world.a.answers = false;
  BOOST_REQUIRE(world.b.manager.listen(kPort));
  world.connect();
  world.run(milliseconds(100));
  BOOST_TEST(world.b.count(Event::Kind::established) == 0u);
  world.b.manager.on_data(world.b.last(Event::Kind::requested).connection, world.now);
  world.drive(world.b);
  BOOST_TEST(world.b.count(Event::Kind::established) == 1u);
}

BOOST_AUTO_TEST_CASE(a_peer_that_asks_for_patience_is_given_it) {
  World world(6, 1'000'000);
  const CommunicationId id = world.connect();
  world.run(milliseconds(100));
  // The timeout code 22 means 4.096 us x 2^22 = 17 s.
  const Mad patience = encode({0, MessageReceived{CommunicationId{9}, id, Answered::request, 22}});
  world.a.manager.on_datagram(world.b.address, patience, world.now);
  world.run(seconds(17));
  BOOST_TEST(world.a.manager.counters().repeated == 0u);
  world.run(seconds(3));
  BOOST_TEST(world.a.manager.counters().repeated > 0u);
}

BOOST_AUTO_TEST_CASE(the_end_of_a_connection_that_is_gone_is_answered_all_the_same) {
  World world(7);
  const Mad request = encode({5, DisconnectRequest{CommunicationId{1}, CommunicationId{2}, Qpn{3}}});
  world.a.manager.on_datagram(world.b.address, request, world.now);
  Datagram answer;
  BOOST_REQUIRE(world.a.manager.poll_transmit(answer));
  const auto decoded = decode(answer.mad);
  BOOST_REQUIRE(decoded);
  const auto* const reply = std::get_if<DisconnectReply>(&decoded->body);
  BOOST_REQUIRE(reply != nullptr);
  BOOST_TEST((reply->local == CommunicationId{2} && reply->remote == CommunicationId{1}));
  BOOST_TEST(world.a.events.empty());
}

BOOST_AUTO_TEST_CASE(another_host_can_neither_answer_nor_end_a_connection) {
  World world(8);
  BOOST_REQUIRE(world.b.manager.listen(kPort));
  const CommunicationId id = world.connect();
  world.run(seconds(1));
  const CommunicationId theirs = world.b.last(Event::Kind::requested).connection;
  const Address other = Address::ipv4(10, 0, 0, 99, 0);
  world.a.manager.on_datagram(other, encode({0, DisconnectRequest{theirs, id, Qpn{0x111}}}), world.now);
  world.a.manager.on_datagram(
      other, encode({0, Reject{theirs, id, Answered::other, RejectReason::consumer, {}}}), world.now);
  world.drive(world.a);
  BOOST_TEST(world.a.count(Event::Kind::disconnected) + world.a.count(Event::Kind::rejected) == 0u);
  BOOST_TEST(world.a.manager.counters().strays == 2u);
}

BOOST_AUTO_TEST_CASE(a_program_that_never_decides_is_asked_no_longer_than_the_peer_waits) {
  World world(9);
  world.b.answers = false;
  BOOST_REQUIRE(world.b.manager.listen(kPort));
  world.connect();
  world.run();
  BOOST_TEST(world.b.count(Event::Kind::requested) == 1u);
  BOOST_TEST((world.b.manager.next_deadline() == Time::never()));
}

// Whatever valid messages the peer sends in the meantime, the request must not be reported or answered again.
BOOST_AUTO_TEST_CASE(a_request_that_was_not_answered_is_not_repeated_to_the_peer) {
  for (const bool patience : {false, true}) {
    World world(11);
    world.b.answers = false;
    BOOST_REQUIRE(world.b.manager.listen(kPort));
    world.connect();
    Datagram request;
    BOOST_REQUIRE(world.a.manager.poll_transmit(request));
    const auto repeat = [&] { world.b.manager.on_datagram(world.a.address, request.mad, world.now); };
    repeat();
    world.drive(world.b);
    const CommunicationId ours = world.b.last(Event::Kind::requested).connection,
                          theirs = std::get<Request>(decode(request.mad)->body).local;
    if (patience)
      world.b.manager.on_datagram(
          world.a.address, encode({1, MessageReceived{theirs, ours, Answered::request, 0}}), world.now);
    else
      world.b.manager.on_datagram(world.a.address, encode({1, DisconnectRequest{theirs, ours, {}}}),
                                  world.now);
    for (int i = 0; i < 100; ++i) {
      repeat();
      world.b.manager.on_timer(world.now);
      world.now = world.now + milliseconds(500);
    }
    for (Datagram answer; world.b.manager.poll_transmit(answer);) BOOST_TEST(decode(answer.mad).has_value());
  }
}

namespace {

/// The two values that a foreign endpoint names in its request: the response timeout (an exponent) and the
/// number of retries.
struct Times {
  std::uint8_t response_timeout = 18, retries = 15;
};

/// Returns a request to connect to `host`. `path` and `header` are two addresses in the request that name its
/// sender.
std::vector<std::byte> request_to(const Host& host, std::uint32_t number, const Address& path,
                                  const Address& header, Times times = {}) {
  const auto private_data = encode(IpHeader{header, host.address});
  const auto mad = encode({number, Request{.local = CommunicationId{number},
                                           .service_id = service_of(kPort),
                                           .queue_pair = {.qpn = Qpn{number + 2}},
                                           .response_timeout = times.response_timeout,
                                           .cm_retries = times.retries,
                                           .local_address = path,
                                           .remote_address = host.address,
                                           .private_data = {private_data.begin(), private_data.end()}}});
  return {mad.begin(), mad.end()};
}

RejectReason refusal_of(Host& host) {
  Datagram answer;
  BOOST_REQUIRE(host.manager.poll_transmit(answer));
  return std::get<Reject>(decode(answer.mad)->body).reason;
}

}  // namespace

BOOST_AUTO_TEST_CASE(nobody_asks_for_a_connection_to_somebody_else) {
  const Address peer = Address::ipv4(10, 0, 0, 2, 0), other = Address::ipv4(10, 0, 0, 3, 0);
  Address of_another_family{.ipv6 = true};
  of_another_family.bytes = peer.bytes;
  for (const auto& [path, header] :
       {std::pair{other, peer}, std::pair{peer, other}, std::pair{peer, of_another_family}}) {
    Host host(1, 10);
    BOOST_REQUIRE(host.manager.listen(kPort));
    host.manager.on_datagram(peer, request_to(host, 1, path, header), Time{1});
    BOOST_TEST((refusal_of(host) == RejectReason::consumer));
    Event event;
    BOOST_TEST(!host.manager.poll_event(event));
  }
}

BOOST_AUTO_TEST_CASE(requests_without_end_fill_no_memory) {
  Host host(1, 10);
  BOOST_REQUIRE(host.manager.listen(kPort));
  const Address peer = Address::ipv4(10, 0, 0, 2, 0);
  std::size_t refused = 0;
  for (std::uint32_t i = 0; i < Manager::kMostConnections + 10; ++i) {
    host.manager.on_datagram(peer, request_to(host, i, peer, peer), Time{1});
    if (i < Manager::kMostConnections) continue;
    refused += refusal_of(host) == RejectReason::no_resources ? 1 : 0;
  }
  BOOST_TEST(refused == 10u);
  BOOST_TEST(host.manager.connections() == Manager::kMostConnections);
  // If a connection has ended, it is removed to make space for a new one.
  Event first;
  BOOST_REQUIRE(host.manager.poll_event(first));
  host.manager.reject(first.connection, RejectReason::consumer, Time{1});
  for (Datagram sent; host.manager.poll_transmit(sent);) continue;
  for (const bool there_is_room : {true, false}) {
    host.manager.on_datagram(peer, request_to(host, there_is_room ? 5000 : 5001, peer, peer), Time{1});
    Datagram sent;
    BOOST_TEST(host.manager.poll_transmit(sent) == !there_is_room);
  }
  BOOST_TEST(host.manager.connections() == Manager::kMostConnections);
}

namespace {

/// Foreign endpoints, and a driver that answers some of them. The foreign endpoints choose their own
/// timeouts, request more time repeatedly, and never finish.
struct Siege {
  explicit Siege(std::uint64_t seed) : random(seed), host(1, seed + 1) {
    BOOST_REQUIRE(host.manager.listen(kPort));
  }
  static Address outsider(std::uint32_t number) {
    return Address::ipv4(10, 0, 1, static_cast<std::uint8_t>(number), 0);
  }
  std::uint8_t below(std::uint32_t limit) { return static_cast<std::uint8_t>(random.next() % limit); }

  void ask() {
    const std::uint32_t number = ++asked;
    host.manager.on_datagram(
        outsider(number),
        request_to(host, number, outsider(number), outsider(number), {below(32), below(16)}), now);
    for (Event event; host.manager.poll_event(event);) {
      if (event.kind != Event::Kind::requested) continue;
      begun.push_back({event.connection, number});
      if (random.chance(400'000)) host.manager.accept(event.connection, {.qpn = Qpn{0x222}}, now);
    }
  }
  void ask_for_patience() {
    for (const auto& [ours, number] : begun) {
      const CommunicationId theirs{number};
      const auto answered = random.chance(500'000) ? Answered::reply : Answered::other;
      host.manager.on_datagram(outsider(number),
                               encode({1, MessageReceived{theirs, ours, answered, below(32)}}), now);
      if (random.chance(20'000))
        host.manager.on_datagram(outsider(number), encode({2, DisconnectRequest{theirs, ours, {}}}), now);
      if (random.chance(20'000)) host.manager.disconnect(ours, now);
    }
  }
  void pass(Duration time) {
    for (const Time end = now + time; now < end;) {
      now = std::min(end, std::max(now + kDelay, host.manager.next_deadline()));
      host.manager.on_timer(now);
      for (Datagram out; host.manager.poll_transmit(out);) {
      }
      for (Event event; host.manager.poll_event(event);) {
      }
    }
  }

  Random random;
  Host host;
  Time now{1'000'000'000};
  std::uint32_t asked = 0;
  std::vector<std::pair<CommunicationId, std::uint32_t>> begun;
};

}  // namespace

BOOST_AUTO_TEST_CASE(whatever_times_foreign_endpoints_choose_what_they_begin_is_forgotten_within_a_minute) {
  BOOST_TEST(rc::check([](std::uint64_t seed) {
    Siege siege(seed);
    for (int i = 0; i < 40; ++i) {
      siege.ask();
      siege.ask_for_patience();
      siege.pass(milliseconds(siege.below(200)));
    }
    RC_ASSERT(siege.host.manager.connections() > 0u);
    for (int i = 0; i < 60; ++i) {
      siege.pass(seconds(1));
      siege.ask_for_patience();
    }
    siege.pass(kDelay);
    RC_ASSERT(siege.host.manager.connections() == 0u);
  }));
}

BOOST_AUTO_TEST_SUITE_END()
