#include "dataplane/port/dpdk/neighbours.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <vector>

#include "dataplane/base/random.hpp"
#include "tests/dataplane/port/dpdk/generators.hpp"

BOOST_AUTO_TEST_SUITE(neighbours_test)

using namespace rdmc;
using namespace rdmc::port::dpdk;
using namespace rdmc::port::dpdk::test;

namespace {

using Kind = NeighbourMessage::Kind;
using State = Neighbours::Lookup::State;

const LinkAddress kUs{.mac = kOurMac, .ip = Address::ipv4(10, 0, 0, 1, 0)};
const Address kPeer = Address::ipv4(10, 0, 0, 2, 0);
const MacAddress kOtherMac{0x02, 0, 0, 0, 0, 3};

std::vector<NeighbourMessage> drain(Neighbours& neighbours) {
  std::vector<NeighbourMessage> messages;
  while (const auto message = neighbours.poll()) messages.push_back(*message);
  return messages;
}

NeighbourMessage reply_from(const Address& who, const MacAddress& mac, bool may_replace = true) {
  return {.kind = Kind::reply,
          .sender = who,
          .sender_mac = mac,
          .target = kUs.ip,
          .target_mac = kOurMac,
          .solicited = true,
          .may_replace = may_replace};
}

NeighbourMessage request_by(const Address& who, const MacAddress& mac, const Address& target) {
  return {.kind = Kind::request, .sender = who, .sender_mac = mac, .target = target};
}

/// Two hosts on one link.
struct Wire {
  Neighbours a, b;
  void carry(Time now) {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
        for (const auto& message : drain(*from)) {
          to->on_message(message, now);
          moved = true;
        }
      }
    }
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(two_machines_find_each_other_whatever_their_addresses) {
  BOOST_TEST(rc::check([] {
    const bool ipv6 = *rc::gen::arbitrary<bool>();
    const auto bits = static_cast<std::uint8_t>(*rc::gen::inRange(1, ipv6 ? 127 : 31));
    const Address a = without_port(*any_address(ipv6));
    Address b = without_port(*any_address(ipv6));
    for (std::size_t bit = 0; bit < bits; ++bit) {  // Both addresses get the same prefix.
      const auto mask = static_cast<std::uint8_t>(0x80 >> bit % 8);
      b.bytes[bit / 8] = static_cast<std::uint8_t>((b.bytes[bit / 8] & ~mask) | (a.bytes[bit / 8] & mask));
    }
    const auto is_of_a_host = [](const Address& x) { return std::ranges::any_of(x.bytes, std::identity{}); };
    RC_PRE(a != b && is_of_a_host(a) && is_of_a_host(b));
    Wire wire{Neighbours({kOurMac, a, bits}), Neighbours({kTheirMac, b, bits})};
    RC_ASSERT(wire.a.lookup(b, Time{}).state == State::resolving);
    wire.carry(Time{});
    const auto found = wire.a.lookup(b, Time{});
    RC_ASSERT(found.state == State::known);
    RC_ASSERT(found.mac == kTheirMac);
    // `b` has learned the address of `a` from the question of `a`.
    RC_ASSERT(wire.b.lookup(a, Time{}).mac == kOurMac);
    wire.carry(Time{});
    RC_ASSERT(drain(wire.b).empty());
  }));
}

BOOST_AUTO_TEST_CASE(what_is_not_on_the_link_goes_through_the_gateway_or_nowhere) {
  const Address far = Address::ipv4(10, 0, 1, 2, 0);
  Neighbours lonely(kUs);
  BOOST_TEST((lonely.lookup(far, Time{}).state == State::unreachable));
  BOOST_TEST(drain(lonely).empty());

  LinkAddress with_gateway = kUs;
  with_gateway.gateway = Address::ipv4(10, 0, 0, 254, 0);
  Neighbours routed(with_gateway);
  BOOST_TEST((routed.lookup(far, Time{}).state == State::resolving));
  const auto asked = drain(routed);
  BOOST_REQUIRE(asked.size() == 1u);
  BOOST_TEST((asked[0].target == *with_gateway.gateway));
  BOOST_TEST((asked[0].target_mac == kBroadcast));
}

BOOST_AUTO_TEST_CASE(a_silent_neighbour_is_asked_seven_times_and_is_then_unreachable_for_a_second) {
  Neighbours neighbours(kUs);
  Time now{};
  std::vector<std::int64_t> asked_at;
  BOOST_TEST((neighbours.lookup(kPeer, now).state == State::resolving));
  while (neighbours.next_deadline() != Time::never()) {
    for (const auto& message : drain(neighbours)) {
      BOOST_TEST((message.kind == Kind::request && message.target_mac == kBroadcast));
      asked_at.push_back(now.ns / 1'000'000);
    }
    BOOST_TEST((neighbours.lookup(kPeer, now).state == State::resolving));
    now = neighbours.next_deadline();
    neighbours.on_timer(now);
  }
  const std::vector<std::int64_t> expected{0, 10, 30, 70, 150, 310, 630};
  BOOST_TEST(asked_at == expected, boost::test_tools::per_element());
  BOOST_TEST((neighbours.lookup(kPeer, now).state == State::unreachable));
  BOOST_TEST((neighbours.lookup(kPeer, now + milliseconds(999)).state == State::unreachable));
  BOOST_TEST(drain(neighbours).empty());
  BOOST_TEST((neighbours.lookup(kPeer, now + seconds(1)).state == State::resolving));
  BOOST_TEST(drain(neighbours).size() == 1u);
  // A late answer must also be accepted.
  neighbours.on_message(reply_from(kPeer, kTheirMac), now + seconds(1));
  BOOST_TEST((neighbours.lookup(kPeer, now + seconds(1)).mac == kTheirMac));
}

BOOST_AUTO_TEST_CASE(an_old_answer_is_used_while_it_is_confirmed_by_unicast) {
  Neighbours neighbours(kUs);
  neighbours.lookup(kPeer, Time{});
  neighbours.on_message(reply_from(kPeer, kTheirMac), Time{});
  drain(neighbours);
  Time now{Neighbours::kReachableFor.ns};
  BOOST_TEST((neighbours.lookup(kPeer, now - nanoseconds(1)).state == State::known));
  BOOST_TEST(drain(neighbours).empty());
  BOOST_TEST((neighbours.lookup(kPeer, now).state == State::known));
  const auto probes = drain(neighbours);
  BOOST_REQUIRE(probes.size() == 1u);
  BOOST_TEST((probes[0].target_mac == kTheirMac));

  neighbours.on_message(reply_from(kPeer, kTheirMac), now);
  BOOST_TEST((neighbours.next_deadline() == Time::never()));
  now = now + Neighbours::kReachableFor;

  // After requests without an answer, the next request is a broadcast, because another card may have the
  // address by now.
  BOOST_TEST((neighbours.lookup(kPeer, now).state == State::known));
  const std::uint64_t before = neighbours.generation();
  for (std::uint32_t i = 0; i < Neighbours::kRequests; ++i) {
    now = neighbours.next_deadline();
    neighbours.on_timer(now);
  }
  BOOST_TEST(neighbours.generation() != before);
  BOOST_TEST((neighbours.lookup(kPeer, now).state == State::resolving));
  BOOST_TEST((drain(neighbours).back().target_mac == kBroadcast));
}

BOOST_AUTO_TEST_CASE(a_card_that_was_exchanged_is_followed_and_lookups_are_told_to_look_again) {
  Neighbours neighbours(kUs);
  neighbours.lookup(kPeer, Time{});
  neighbours.on_message(reply_from(kPeer, kTheirMac), Time{});
  const std::uint64_t before = neighbours.generation();
  // This answer confirms that the neighbour exists, but must not replace the MAC address.
  neighbours.on_message(reply_from(kPeer, kOtherMac, false), Time{});
  BOOST_TEST((neighbours.lookup(kPeer, Time{}).mac == kTheirMac));
  BOOST_TEST(neighbours.generation() == before);
  neighbours.on_message(reply_from(kPeer, kOtherMac), Time{});
  BOOST_TEST((neighbours.lookup(kPeer, Time{}).mac == kOtherMac));
  BOOST_TEST(neighbours.generation() != before);
}

BOOST_AUTO_TEST_CASE(only_who_asks_for_us_is_answered) {
  Neighbours neighbours(kUs);
  neighbours.on_message(request_by(kPeer, kTheirMac, Address::ipv4(10, 0, 0, 3, 0)), Time{});
  BOOST_TEST(drain(neighbours).empty());
  neighbours.on_message(request_by(kPeer, kTheirMac, kUs.ip), Time{});
  const auto answers = drain(neighbours);
  BOOST_REQUIRE(answers.size() == 1u);
  BOOST_TEST((answers[0].kind == Kind::reply && answers[0].sender == kUs.ip &&
              answers[0].sender_mac == kOurMac && answers[0].target == kPeer &&
              answers[0].target_mac == kTheirMac));
}

BOOST_AUTO_TEST_CASE(who_looks_for_duplicates_of_our_address_is_told_and_not_learned) {
  Neighbours neighbours(kUs);
  neighbours.on_message(request_by(Address{}, kTheirMac, kUs.ip), Time{});
  const auto answers = drain(neighbours);
  BOOST_REQUIRE(answers.size() == 1u);
  BOOST_TEST((answers[0].target_mac == kTheirMac));

  const Address ours{.ipv6 = true, .bytes = {0x20, 1, 0xD, 0xB8, 0, 1}};
  Neighbours on_ipv6({.mac = kOurMac, .ip = ours, .prefix_bits = 64});
  on_ipv6.on_message(request_by(Address{.ipv6 = true}, kTheirMac, ours), Time{});
  const auto to_all = drain(on_ipv6);
  BOOST_REQUIRE(to_all.size() == 1u);
  BOOST_TEST(host_string(to_all[0].target) == "ff02::1");
  BOOST_TEST((to_all[0].target_mac == MacAddress{0x33, 0x33, 0, 0, 0, 1}));
  BOOST_TEST(!to_all[0].solicited);
}

BOOST_AUTO_TEST_CASE(nobody_can_be_taught_what_nobody_asked_for) {
  Neighbours neighbours(kUs);
  neighbours.on_message(reply_from(kPeer, kTheirMac), Time{});  // This answer has no request.
  BOOST_TEST((neighbours.lookup(kPeer, Time{}).state == State::resolving));
  neighbours.on_message(reply_from(kPeer, kBroadcast), Time{});  // No card has this MAC address.
  BOOST_TEST((neighbours.lookup(kPeer, Time{}).state == State::resolving));
  neighbours.on_message(reply_from(kPeer, MacAddress{}), Time{});
  BOOST_TEST((neighbours.lookup(kPeer, Time{}).state == State::resolving));
  drain(neighbours);
  // A host that uses the local address itself must get no answer.
  neighbours.on_message(request_by(kUs.ip, kTheirMac, kUs.ip), Time{});
  BOOST_TEST(drain(neighbours).empty());
}

BOOST_AUTO_TEST_CASE(the_table_and_the_queue_are_bounded_and_what_is_used_stays) {
  Neighbours neighbours({.mac = kOurMac, .ip = kUs.ip, .prefix_bits = 8});
  neighbours.lookup(kPeer, Time{});
  neighbours.on_message(reply_from(kPeer, kTheirMac), Time{});
  drain(neighbours);
  Random random(3);
  for (std::uint32_t i = 0; i < 5 * Neighbours::kMostNeighbours; ++i) {
    const Time now = Time{} + microseconds(i);
    const auto any = [&] { return static_cast<std::uint8_t>(random.next()); };
    neighbours.on_message(request_by(Address::ipv4(10, any(), any(), any(), 0), kOtherMac, kUs.ip), now);
    BOOST_TEST((neighbours.lookup(kPeer, now).mac == kTheirMac));
  }
  BOOST_TEST(drain(neighbours).size() == Neighbours::kMostQueued);
}

BOOST_AUTO_TEST_CASE(the_link_is_told_our_address_in_the_way_of_its_family) {
  Neighbours on_ipv4(kUs);
  on_ipv4.announce();
  const auto arp = drain(on_ipv4);
  BOOST_REQUIRE(arp.size() == 1u);
  BOOST_TEST((arp[0].kind == Kind::request && arp[0].sender == kUs.ip && arp[0].target == kUs.ip &&
              arp[0].target_mac == kBroadcast));
  Neighbours on_ipv6({.mac = kOurMac, .ip = {.ipv6 = true, .bytes = {0xFE, 0x80, 0, 1}}, .prefix_bits = 64});
  on_ipv6.announce();
  const auto discovery = drain(on_ipv6);
  BOOST_REQUIRE(discovery.size() == 1u);
  BOOST_TEST((discovery[0].kind == Kind::reply && discovery[0].may_replace && !discovery[0].solicited));
}

BOOST_AUTO_TEST_SUITE_END()
