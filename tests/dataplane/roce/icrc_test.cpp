#include "dataplane/roce/icrc.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <string_view>

#include "tests/dataplane/roce/packets.hpp"

BOOST_AUTO_TEST_SUITE(icrc_test)

using namespace rdmc;
using namespace rdmc::roce;

namespace {

std::vector<std::byte> bytes_of(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return bytes;
}

/// Computes the CRC bit by bit, as the specification defines it. The tests compare other results with this
/// one.
std::uint32_t slow_crc(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0u;
  for (const std::byte byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = ((crc ^ std::to_integer<std::uint32_t>(byte) >> bit) & 1) != 0;
      crc = crc >> 1 ^ (one ? 0xEDB88320 : 0);
    }
  return ~crc;
}

std::uint32_t icrc_of(const Icrc& icrc, std::uint16_t identification, std::span<const std::byte> datagram,
                      std::size_t header_bytes) {
  const auto covered = datagram.first(datagram.size() - kIcrcBytes);
  return icrc.compute(identification, datagram.size(), covered.first(header_bytes),
                      covered.subspan(header_bytes), 0);
}

Address random_address(Random& random, bool ipv6) {
  Address address{.ipv6 = ipv6, .port = static_cast<std::uint16_t>(random.next())};
  for (std::size_t i = 0; i < (ipv6 ? 16 : 4); ++i)
    address.bytes[i] = static_cast<std::uint8_t>(random.next());
  return address;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_congestion_notification_of_a_connectx_4_has_its_icrc) {
  const auto packet = bytes_of("8100ffff40000118000000000000000000000000000000000000000082fd002a");
  const Icrc icrc(Address::ipv4(10, 0, 17, 1, 0), Address::ipv4(10, 0, 18, 1, 4791));
  // The packet contains this ICRC in little endian: 82 fd 00 2a.
  BOOST_TEST(icrc_of(icrc, 0x718C, packet, kBthBytes) == 0x2A00FD82);
}

BOOST_AUTO_TEST_CASE(the_published_send_only_packet_has_its_icrc) {
  const auto header = bytes_of("2460ffff000000d300cf1710");
  const auto payload = bytes_of("4630818be28935d90e9a95505401be885e50");
  const Icrc icrc(Address::ipv4(192, 168, 0, 7, 49152), Address::ipv4(192, 168, 0, 7, 4791));
  BOOST_TEST(icrc.compute(1144, 36, header, payload, 2) == 0xF353F378);
  BOOST_TEST(icrc.compute_with(1144, 36, header, payload_crc(payload, 2), 20) == 0xF353F378);
}

BOOST_AUTO_TEST_CASE(it_covers_what_the_specification_says_bit_for_bit) {
  BOOST_TEST(rc::check([](std::uint64_t seed) {
    Random random(seed);
    const bool ipv6 = random.below(2) == 1;
    const Address from = random_address(random, ipv6), to = random_address(random, ipv6);
    const auto identification = static_cast<std::uint16_t>(random.next());
    const auto sample = testing::make_sample(testing::kOpcodes[random.below(testing::kOpcodes.size())],
                                             random.below(600), random);

    // This packet has ones in all bits of every field that a router may change.
    std::vector<std::byte> packet(8, std::byte{0xFF});
    const auto put = [&](std::uint64_t value, int size) {
      while (size-- > 0) packet.push_back(static_cast<std::byte>(value >> 8 * size));
    };
    const std::size_t udp_bytes = sample.datagram.size() + 8;
    if (ipv6) {
      put(0x6FFFFFFF, 4), put(udp_bytes, 2), put(17, 1), put(0xFF, 1);
    } else {
      put(0x45FF, 2), put(udp_bytes + 20, 2), put(identification, 2), put(0x4000, 2), put(0xFF11FFFF, 4);
    }
    for (const auto byte : from.ip()) put(byte, 1);
    for (const auto byte : to.ip()) put(byte, 1);
    put(from.port, 2), put(to.port, 2), put(udp_bytes, 2), put(0xFFFF, 2);
    const std::size_t bth = packet.size();
    packet.insert(packet.end(), sample.datagram.begin(), sample.datagram.end() - kIcrcBytes);
    packet[bth + 4] = std::byte{0xFF};

    const Icrc icrc(from, to);
    const std::uint32_t expected = slow_crc(packet);
    RC_ASSERT(icrc_of(icrc, identification, sample.datagram, sample.header_bytes) == expected);
    const auto header = std::span(sample.datagram).first(sample.header_bytes);
    RC_ASSERT(icrc.compute(identification, sample.datagram.size(), header, sample.payload,
                           sample.bth.pad_bytes) == expected);
    RC_ASSERT(icrc.compute_with(identification, sample.datagram.size(), header,
                                payload_crc(sample.payload, sample.bth.pad_bytes),
                                sample.payload.size() + sample.bth.pad_bytes) == expected);
  }));
}

BOOST_AUTO_TEST_CASE(every_single_bit_flip_is_detected_but_for_the_congestion_bits) {
  Random random(3);
  for (const Opcode opcode : testing::kOpcodes) {
    auto sample = testing::make_sample(opcode, 100, random);
    const Icrc icrc(Address::ipv4(127, 0, 0, 1, 5), Address::ipv4(127, 0, 0, 1, 4791));
    const std::uint32_t good = icrc_of(icrc, 0, sample.datagram, sample.header_bytes);
    for (std::size_t bit = 0; bit < (sample.datagram.size() - kIcrcBytes) * 8; ++bit) {
      const auto mask = static_cast<std::byte>(1 << bit % 8);
      sample.datagram[bit / 8] ^= mask;
      const bool detected = icrc_of(icrc, 0, sample.datagram, sample.header_bytes) != good;
      sample.datagram[bit / 8] ^= mask;
      BOOST_REQUIRE_EQUAL(detected, bit / 8 != 4);
    }
    for (unsigned bit = 0; bit < 16; ++bit)
      BOOST_REQUIRE(
          icrc_of(icrc, static_cast<std::uint16_t>(1u << bit), sample.datagram, sample.header_bytes) != good);
  }
}

BOOST_AUTO_TEST_CASE(crcs_of_two_parts_combine_to_that_of_the_whole) {
  BOOST_TEST(rc::check([](std::uint64_t seed) {
    Random random(seed);
    const auto whole = testing::random_bytes(random, random.below(70'000));
    const std::size_t cut = random.below(whole.size() + 1);
    const auto a = std::span(whole).first(cut), b = std::span(whole).subspan(cut);
    RC_ASSERT(crc_combine(payload_crc(a, 0), payload_crc(b, 0), b.size()) == payload_crc(whole, 0));
  }));
}

BOOST_AUTO_TEST_CASE(combining_over_gigabytes_equals_combining_step_by_step) {
  // The CRC of 2^36 zero bytes is computed by two methods: by doubling the run of zeros repeatedly, and by
  // adding one mebibyte after the other.
  const std::vector<std::byte> zeros(1 << 20);
  const std::uint32_t mebibyte = payload_crc(zeros, 0);
  std::uint32_t crc = mebibyte;
  std::uint32_t stepwise = mebibyte;
  for (std::size_t size = zeros.size(); size < std::size_t{1} << 36; size *= 2)
    crc = crc_combine(crc, crc, size);
  for (std::size_t count = 1; count < std::size_t{1} << 16; ++count)
    stepwise = crc_combine(stepwise, mebibyte, zeros.size());
  BOOST_TEST(crc == stepwise);
}

BOOST_AUTO_TEST_CASE(a_foreign_identification_is_solved_for_and_a_corrupt_datagram_has_none) {
  rc::check(
      "any identification, any datagram", [](std::uint64_t seed, std::uint16_t id, std::uint16_t tried) {
        Random random(seed);
        const Icrc icrc(random_address(random, false), random_address(random, false));
        std::vector<std::byte> datagram(kBthBytes + 4 * *rc::gen::inRange<std::size_t>(0, 1024) + kIcrcBytes);
        for (std::byte& byte : datagram) byte = static_cast<std::byte>(random.next());
        const std::uint32_t received = icrc_of(icrc, id, datagram, kBthBytes);
        const std::uint32_t computed = icrc_of(icrc, tried, datagram, kBthBytes);
        RC_ASSERT(icrc.solve_identification(tried, computed, received, datagram.size()) == id);
        // One bit that the ICRC covers is wrong. No identification gives this ICRC.
        const std::size_t covered = datagram.size() - kIcrcBytes;
        const std::size_t at = random.next() % covered;
        if (at == 4) return;  // The ICRC does not cover this byte.
        datagram[at] ^= static_cast<std::byte>(1 << random.next() % 8);
        const std::uint32_t changed = icrc_of(icrc, tried, datagram, kBthBytes);
        RC_ASSERT(!icrc.solve_identification(tried, changed, received, datagram.size()));
      });
}

BOOST_AUTO_TEST_CASE(the_identification_of_the_connectx_4_is_solved_for) {
  const auto packet = bytes_of("8100ffff40000118000000000000000000000000000000000000000082fd002a");
  const Icrc icrc(Address::ipv4(10, 0, 17, 1, 0), Address::ipv4(10, 0, 18, 1, 4791));
  const std::uint32_t computed = icrc_of(icrc, 0, packet, kBthBytes);
  BOOST_TEST((icrc.solve_identification(0, computed, 0x2A00FD82, packet.size()) == 0x718C));
}

BOOST_AUTO_TEST_SUITE_END()
