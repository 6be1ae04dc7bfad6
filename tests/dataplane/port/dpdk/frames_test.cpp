#include "dataplane/port/dpdk/frames.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/dataplane/port/dpdk/generators.hpp"

BOOST_AUTO_TEST_SUITE(frames_test)

using namespace rdmc;
using namespace rdmc::port::dpdk;
using namespace rdmc::port::dpdk::test;

namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(std::string_view hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

Bytes udp_frame(const Address& from, const Address& to, std::size_t payload, bool ecn_capable = false,
                std::uint8_t dscp = 0) {
  const UdpHeaders headers(kOurMac, kTheirMac, from, to, static_cast<std::uint8_t>(dscp << 2));
  Bytes frame(headers.bytes() + payload, std::byte{0x5A});
  headers.write(frame.data(), payload, ecn_capable);
  return frame;
}

Bytes neighbour_frame(const NeighbourMessage& message) {
  Bytes frame(kMostNeighbourBytes);
  frame.resize(write_neighbour(message, frame));
  return frame;
}

bool is_usable(std::span<const std::byte> bytes) {
  return !std::holds_alternative<Unusable>(read_frame(bytes));
}

void check_unusable(std::span<const std::byte> frame, Unusable why) {
  const Frame read = read_frame(frame);
  BOOST_REQUIRE(std::holds_alternative<Unusable>(read));
  BOOST_TEST((std::get<Unusable>(read) == why));
}

/// A congestion notification that a ConnectX-4 Lx sent. Source: scapy, test/contrib/roce.uts.
const std::string kConnectX =
    "0a001201000a0a00110100000800"
    "45c2003c718c4000401191610a0011010a001201"
    "000012b700280000"
    "8100ffff4000011800000000"
    "00000000000000000000000000000000"
    "82fd002a";

}  // namespace

BOOST_AUTO_TEST_CASE(a_datagram_is_read_as_it_was_written) {
  BOOST_TEST(rc::check([] {
    const bool ipv6 = *rc::gen::arbitrary<bool>();
    const Address from = *any_address(ipv6), to = *any_address(ipv6);
    const auto payload = *rc::gen::inRange<std::size_t>(0, 9001);
    const auto padding = *rc::gen::inRange<std::size_t>(0, 60);
    const bool ecn_capable = *rc::gen::arbitrary<bool>();
    const auto dscp = *rc::gen::inRange<std::uint8_t>(0, 64);
    Bytes frame = udp_frame(from, to, payload, ecn_capable, dscp);
    const std::size_t headers = frame.size() - payload;
    frame.resize(frame.size() + padding);
    const Frame read = read_frame(frame);
    RC_ASSERT(std::holds_alternative<UdpFrame>(read));
    const UdpFrame& udp = std::get<UdpFrame>(read);
    RC_ASSERT(udp.source == from);
    RC_ASSERT(udp.destination == to);
    RC_ASSERT(udp.payload_offset == headers);
    RC_ASSERT(udp.payload_bytes == payload);
    RC_ASSERT(udp.identification == 0);
    RC_ASSERT(!udp.congestion_experienced);
    const int traffic_class =
        ipv6 ? std::to_integer<int>(frame[14]) % 16 * 16 + std::to_integer<int>(frame[15] >> 4)
             : std::to_integer<int>(frame[15]);
    RC_ASSERT(traffic_class == dscp * 4 + (ecn_capable ? 2 : 0));
  }));
}

BOOST_AUTO_TEST_CASE(a_frame_of_a_network_card_is_read_and_our_header_checksum_is_the_one_it_computed) {
  Bytes frame = from_hex(kConnectX);
  const Frame read = read_frame(frame);
  BOOST_REQUIRE(std::holds_alternative<UdpFrame>(read));
  const UdpFrame& udp = std::get<UdpFrame>(read);
  BOOST_TEST(to_string(udp.source) == "10.0.17.1:0");
  BOOST_TEST(to_string(udp.destination) == "10.0.18.1:4791");
  BOOST_TEST(udp.payload_bytes == 32u);
  BOOST_TEST(udp.identification == 0x718C);
  BOOST_TEST(!udp.congestion_experienced);

  const UdpHeaders headers(kOurMac, kTheirMac, udp.source, udp.destination);
  Bytes ours(headers.bytes());
  headers.write(ours.data(), 32, true);
  // The header of the card has another traffic class (0xC2) and another identification. All other bytes are
  // equal.
  ours[15] = std::byte{0xC2};
  ours[18] = frame[18];
  ours[19] = frame[19];
  ours[24] = ours[25] = std::byte{0};
  BOOST_TEST(internet_checksum(std::span(ours).subspan(14, 20)) == 0x9161);
  frame[24] = frame[25] = std::byte{0};
  BOOST_TEST(std::equal(ours.begin() + 14, ours.end(), frame.begin() + 14));
}

BOOST_AUTO_TEST_CASE(a_pattern_finds_the_datagrams_of_its_kind_and_never_what_reading_refuses) {
  BOOST_TEST(rc::check([] {
    const Address from = *any_address(false), to = *any_address(false);
    const UdpPattern pattern(udp_frame(from, to, *rc::gen::inRange<std::size_t>(0, 100)));
    const auto payload = *rc::gen::inRange<std::size_t>(0, 2000);
    Bytes frame = udp_frame(from, to, payload);
    frame.resize(frame.size() + *rc::gen::inRange<std::size_t>(0, 60));
    const auto matched = pattern.match(frame);
    RC_ASSERT(matched.has_value() && *matched == payload);
    RC_ASSERT(!UdpPattern().match(frame).has_value());

    // Changes some bytes of the headers, and the length of the frame. If the frame still matches the pattern,
    // reading it must give the same result.
    for (auto changes = *rc::gen::inRange(1, 4); changes > 0; --changes)
      frame[*rc::gen::inRange<std::size_t>(12, 42)] =
          static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
    frame.resize(*rc::gen::inRange<std::size_t>(0, frame.size() + 1));
    const auto found = pattern.match(frame);
    if (!found) return;
    const Frame read = read_frame(frame);
    RC_ASSERT(std::holds_alternative<UdpFrame>(read));
    const UdpFrame& udp = std::get<UdpFrame>(read);
    RC_ASSERT(udp.payload_bytes == *found && udp.source == from && udp.destination == to);
    RC_ASSERT(!udp.congestion_experienced);
  }));
  const Address v6 = *parse_address("2001:db8::1", 7);
  const Bytes frame = udp_frame(v6, v6, 100);
  BOOST_TEST(!UdpPattern(frame).match(frame).has_value());
}

BOOST_AUTO_TEST_CASE(congestion_marks_of_routers_are_told) {
  for (const bool ipv6 : {false, true}) {
    const Address from{.ipv6 = ipv6, .bytes = {10, 0, 0, 1}, .port = 1};
    Bytes frame = udp_frame(from, from, 8, true);
    if (ipv6) {
      frame[15] |= std::byte{0x10};  // ECT(0) becomes CE.
    } else {
      frame[15] |= std::byte{0x01};
      frame[25] = static_cast<std::byte>(std::to_integer<int>(frame[25]) - 1);
    }
    const Frame read = read_frame(frame);
    BOOST_REQUIRE(std::holds_alternative<UdpFrame>(read));
    BOOST_TEST(std::get<UdpFrame>(read).congestion_experienced);
  }
}

BOOST_AUTO_TEST_CASE(a_message_between_neighbours_is_read_as_it_was_written) {
  BOOST_TEST(rc::check([] {
    const bool ipv6 = *rc::gen::arbitrary<bool>();
    const bool request = *rc::gen::arbitrary<bool>();
    NeighbourMessage message{
        .kind = request ? NeighbourMessage::Kind::request : NeighbourMessage::Kind::reply,
        .sender = without_port(*any_address(ipv6)),
        .sender_mac = kOurMac,
        .target = without_port(*any_address(ipv6)),
        .target_mac = kTheirMac,
        .solicited = !request,
        .may_replace = true};
    if (ipv6 && request) message.target_mac = group_mac(solicited_node_group(message.target));
    const Frame read = read_frame(neighbour_frame(message));
    RC_ASSERT(std::holds_alternative<NeighbourMessage>(read));
    const auto& got = std::get<NeighbourMessage>(read);
    RC_ASSERT(got.kind == message.kind);
    RC_ASSERT(got.sender == message.sender);
    RC_ASSERT(got.sender_mac == message.sender_mac);
    RC_ASSERT(got.target == message.target);
    RC_ASSERT(got.solicited == message.solicited);
    RC_ASSERT(got.may_replace == (ipv6 ? !request : true));
  }));
}

BOOST_AUTO_TEST_CASE(no_bytes_whatever_are_read_beyond_their_end) {
  BOOST_TEST(rc::check([] {
    const bool ipv6 = *rc::gen::arbitrary<bool>();
    const Address from = *any_address(ipv6), to = *any_address(ipv6);
    Bytes frame = *rc::gen::arbitrary<bool>() ? udp_frame(from, to, *rc::gen::inRange<std::size_t>(0, 200))
                                              : neighbour_frame({.sender = without_port(from),
                                                                 .sender_mac = kOurMac,
                                                                 .target = without_port(to),
                                                                 .target_mac = kTheirMac});
    const auto flips = *rc::gen::container<std::vector<std::pair<std::uint16_t, std::uint8_t>>>(
        rc::gen::arbitrary<std::pair<std::uint16_t, std::uint8_t>>());
    for (const auto& [at, bits] : flips) frame[at % frame.size()] ^= std::byte{bits};
    // The bytes are in a heap block of exactly this size, so that the sanitized build detects a read beyond
    // it.
    const Bytes cut(frame.begin(), frame.begin() + *rc::gen::inRange<std::ptrdiff_t>(
                                                       0, static_cast<std::ptrdiff_t>(frame.size()) + 1));
    const Frame read = read_frame(cut);
    if (const auto* udp = std::get_if<UdpFrame>(&read))
      RC_ASSERT(udp->payload_offset + udp->payload_bytes <= cut.size());
  }));
}

BOOST_AUTO_TEST_CASE(a_single_damaged_bit_of_an_ipv4_header_or_a_discovery_message_is_noticed) {
  const Address v4 = Address::ipv4(10, 1, 2, 3, 4791), v4_peer = Address::ipv4(10, 1, 2, 4, 4791);
  const Bytes datagram = udp_frame(v4, v4_peer, 16);
  for (std::size_t bit = 14 * 8; bit < 34 * 8; ++bit) {
    Bytes damaged = datagram;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    BOOST_TEST(!is_usable(damaged), "bit " << bit);
  }
  const Address v6{.ipv6 = true, .bytes = {0x20, 1, 0xD, 0xB8, 9}};
  const Bytes discovery =
      neighbour_frame({.sender = v6, .sender_mac = kOurMac, .target = v6, .target_mac = kTheirMac});
  // Every bit from the source address on is tested.
  for (std::size_t bit = 22 * 8; bit < discovery.size() * 8; ++bit) {
    Bytes damaged = discovery;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    BOOST_TEST(!is_usable(damaged), "bit " << bit);
  }
}

BOOST_AUTO_TEST_CASE(what_roce_never_sends_is_refused_by_name) {
  const Address from = Address::ipv4(10, 1, 2, 3, 1), to = Address::ipv4(10, 1, 2, 4, 2);
  const auto resealed = [](Bytes frame) {
    frame[24] = frame[25] = std::byte{0};
    const std::uint16_t sum = internet_checksum(std::span(frame).subspan(14, 20));
    frame[24] = static_cast<std::byte>(sum >> 8);
    frame[25] = static_cast<std::byte>(sum);
    return frame;
  };
  Bytes fragment = udp_frame(from, to, 64);
  fragment[20] = std::byte{0x20};  // This sets the flag for more fragments.
  check_unusable(resealed(fragment), Unusable::fragment);
  Bytes tcp = udp_frame(from, to, 64);
  tcp[23] = std::byte{6};
  check_unusable(resealed(tcp), Unusable::other_protocol);
  Bytes options = udp_frame(from, to, 64);
  options[14] = std::byte{0x46};
  check_unusable(options, Unusable::options);
  Bytes too_long = udp_frame(from, to, 64);
  too_long[39] = std::byte{73};  // The datagram has only 72 bytes of UDP.
  check_unusable(too_long, Unusable::truncated);

  const Address v6{.ipv6 = true, .bytes = {0x20, 1, 0xD, 0xB8, 9}};
  Bytes forwarded =
      neighbour_frame({.sender = v6, .sender_mac = kOurMac, .target = v6, .target_mac = kTheirMac});
  forwarded[21] = std::byte{254};
  check_unusable(forwarded, Unusable::wrong_hop_limit);
}

BOOST_AUTO_TEST_CASE(a_solicitation_goes_to_the_group_of_its_target) {
  const auto address = parse_address("fe80::2aa:ff:fe28:9c5a", 0);  // This is the example of RFC 4291, 2.7.1.
  const Address group = solicited_node_group(*address);
  BOOST_TEST(host_string(group) == "ff02::1:ff28:9c5a");
  BOOST_TEST((group_mac(group) == MacAddress{0x33, 0x33, 0xFF, 0x28, 0x9C, 0x5A}));
}

BOOST_AUTO_TEST_SUITE_END()
