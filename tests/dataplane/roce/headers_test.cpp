#include "dataplane/roce/headers.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <memory>

#include "tests/dataplane/roce/packets.hpp"

BOOST_AUTO_TEST_SUITE(headers_test)

using namespace rdmc;
using namespace rdmc::roce;
using testing::Sample;

namespace {

void check_equal(const Packet& packet, const Sample& sample) {
  RC_ASSERT(packet.bth.opcode == sample.bth.opcode);
  RC_ASSERT(packet.bth.solicited == sample.bth.solicited);
  RC_ASSERT(packet.bth.migration == sample.bth.migration);
  RC_ASSERT(packet.bth.ack_request == sample.bth.ack_request);
  RC_ASSERT(packet.bth.fecn == sample.bth.fecn);
  RC_ASSERT(packet.bth.becn == sample.bth.becn);
  RC_ASSERT(packet.bth.pad_bytes == sample.bth.pad_bytes);
  RC_ASSERT(packet.bth.partition_key == sample.bth.partition_key);
  RC_ASSERT(packet.bth.destination == sample.bth.destination);
  RC_ASSERT(packet.bth.psn == sample.bth.psn);
  RC_ASSERT(packet.reth.address == sample.reth.address);
  RC_ASSERT(packet.reth.key == sample.reth.key);
  RC_ASSERT(packet.reth.length == sample.reth.length);
  RC_ASSERT(packet.aeth.syndrome == sample.aeth.syndrome);
  RC_ASSERT(packet.aeth.msn == sample.aeth.msn);
  RC_ASSERT(packet.immediate == sample.immediate);
  RC_ASSERT(packet.x_write.address == sample.x_write.address);
  RC_ASSERT(packet.x_write.key == sample.x_write.key);
  RC_ASSERT(packet.x_write.remaining == sample.x_write.remaining);
  RC_ASSERT(packet.x_write.begins_unordered == sample.x_write.begins_unordered);
  RC_ASSERT(packet.x_write.identification == sample.x_write.identification);
  RC_ASSERT(packet.x_ack.newest == sample.x_ack.newest);
  RC_ASSERT(packet.x_ack.delay_ns == sample.x_ack.delay_ns);
  RC_ASSERT(packet.x_ack.arrival_ns == sample.x_ack.arrival_ns);
  RC_ASSERT(packet.x_ack.words == sample.x_ack.words);
  RC_ASSERT(packet.atomic.address == sample.atomic.address);
  RC_ASSERT(packet.atomic.key == sample.atomic.key);
  RC_ASSERT(packet.atomic.swap_or_add == sample.atomic.swap_or_add);
  RC_ASSERT(packet.atomic.compare == sample.atomic.compare);
  RC_ASSERT(packet.original == sample.original);
  RC_ASSERT(packet.invalidated == sample.invalidated);
  RC_ASSERT(packet.header_bytes == sample.header_bytes);
  RC_ASSERT(std::ranges::equal(packet.payload, sample.payload));
}

std::vector<std::byte> plain(Opcode opcode, std::size_t payload_bytes) {
  Random random(1);
  return testing::make_sample(opcode, payload_bytes, random).datagram;
}

ParseError error_of(std::span<const std::byte> datagram) {
  const auto packet = parse_packet(datagram);
  BOOST_REQUIRE(!packet.has_value());
  return packet.error();
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_parsed_again_for_every_opcode) {
  for (const Opcode opcode : testing::kOpcodes)
    BOOST_TEST(rc::check([opcode](std::uint64_t seed) {
      Random random(seed);
      const Sample sample = testing::make_sample(opcode, random.below(4200), random);
      const auto packet = parse_packet(sample.datagram);
      RC_ASSERT(packet.has_value());
      check_equal(*packet, sample);
      if (sample.x_ack.words > 0)
        RC_ASSERT(std::equal(sample.bitmap.begin(), sample.bitmap.end(), packet->x_ack.bitmap));
    }));
}

BOOST_AUTO_TEST_CASE(the_bytes_are_those_of_the_specification) {
  std::array<std::byte, kBthBytes> bth;
  write_bth(bth.data(), Bth{.opcode = Opcode::write_last_immediate,
                            .solicited = true,
                            .migration = false,
                            .ack_request = true,
                            .becn = true,
                            .pad_bytes = 3,
                            .partition_key = 0x1234,
                            .destination = Qpn{0xABCDEF},
                            .psn = Psn(0x010203)});
  constexpr std::array<unsigned char, kBthBytes> kExpected{0x09, 0xB0, 0x12, 0x34, 0x40, 0xAB,
                                                           0xCD, 0xEF, 0x80, 0x01, 0x02, 0x03};
  for (std::size_t i = 0; i < kBthBytes; ++i) BOOST_TEST(std::to_integer<int>(bth[i]) == int{kExpected[i]});

  std::array<std::byte, kXWriteBytes> x_write;
  write_x_write(x_write.data(), XWrite{.address = 0x0102030405060708,
                                       .key = RemoteKey{0x11121314},
                                       .immediate = 0x21222324,
                                       .remaining = 0x31323334,
                                       .identification = 0x4142,
                                       .begins_unordered = true});
  constexpr std::array<unsigned char, kXWriteBytes> kExtension{1,    2,    3,    4,    5,    6,    7,    8,
                                                               0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
                                                               0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x80, 0};
  for (std::size_t i = 0; i < kXWriteBytes; ++i)
    BOOST_TEST(std::to_integer<int>(x_write[i]) == int{kExtension[i]});
}

BOOST_AUTO_TEST_CASE(setting_the_identification_changes_nothing_else) {
  Random random(7);
  Sample sample = testing::make_sample(Opcode::x_write, 100, random);
  set_identification(sample.datagram.data(), 0xBEEF);
  sample.x_write.identification = 0xBEEF;
  const auto packet = parse_packet(sample.datagram);
  BOOST_REQUIRE(packet.has_value());
  check_equal(*packet, sample);
}

BOOST_AUTO_TEST_CASE(random_bytes_never_make_the_parser_look_outside_them) {
  BOOST_TEST(rc::check([](std::uint64_t seed) {
    Random random(seed);
    const std::size_t size = random.below(220);
    // The memory has exactly this size, so that the address sanitizer finds every access beyond it.
    const auto bytes = std::make_unique<std::byte[]>(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(random.next());
    // Most of the datagrams pass the first checks.
    if (size >= kBthBytes && random.below(4) != 0) {
      bytes[0] = static_cast<std::byte>(testing::kOpcodes[random.below(testing::kOpcodes.size())]);
      bytes[1] &= std::byte{0xF0};
      bytes[2] = bytes[3] = std::byte{0xFF};
    }
    const std::span<const std::byte> datagram(bytes.get(), size);
    const auto packet = parse_packet(datagram);
    if (!packet) return;
    RC_ASSERT(packet->header_bytes + packet->payload.size() + packet->bth.pad_bytes + kIcrcBytes == size);
    RC_ASSERT(packet->payload.data() == datagram.data() + packet->header_bytes);
    if (packet->bth.opcode == Opcode::x_acknowledge)
      RC_ASSERT(packet->x_ack.bitmap + packet->x_ack.words * 4 + kIcrcBytes == datagram.data() + size);
  }));
}

BOOST_AUTO_TEST_CASE(a_scattered_packet_parses_like_a_whole_one) {
  for (const Opcode opcode : testing::kOpcodes)
    BOOST_TEST(rc::check([opcode](std::uint64_t seed) {
      Random random(seed);
      const Sample sample = testing::make_sample(opcode, random.below(300), random);
      const std::vector<std::byte> header(sample.datagram.begin(),
                                          sample.datagram.begin() + sample.header_bytes);
      auto elsewhere = sample.payload;
      elsewhere.resize(elsewhere.size() + random.below(3));
      const auto packet = parse_scattered(header, sample.datagram.size(), elsewhere);
      if (opcode == Opcode::x_acknowledge) {
        RC_ASSERT(packet.error() == ParseError::unknown_opcode);
        return;
      }
      RC_ASSERT(packet.has_value());
      check_equal(*packet, sample);
      RC_ASSERT(packet->payload.data() == elsewhere.data());
      if (!sample.payload.empty()) {
        const auto too_little = std::span(elsewhere).first(sample.payload.size() - 1);
        RC_ASSERT(parse_scattered(header, sample.datagram.size(), too_little).error() ==
                  ParseError::bad_length);
      }
      const auto short_header = std::span(header).first(header.size() - 1);
      RC_ASSERT(parse_scattered(short_header, sample.datagram.size(), elsewhere).error() ==
                ParseError::too_short);
    }));
}

BOOST_AUTO_TEST_CASE(every_truncation_is_refused) {
  for (const Opcode opcode : testing::kOpcodes) {
    const auto datagram = plain(opcode, 0);
    for (std::size_t size = 0; size < datagram.size(); ++size) {
      const std::vector<std::byte> cut(datagram.begin(), datagram.begin() + size);
      BOOST_TEST(!parse_packet(cut).has_value());
    }
  }
}

BOOST_AUTO_TEST_CASE(each_defect_has_its_name) {
  const auto with = [](Opcode opcode, std::size_t payload,
                       const std::function<void(std::vector<std::byte>&)>& spoil) {
    auto datagram = plain(opcode, payload);
    BOOST_REQUIRE(parse_packet(datagram).has_value());
    spoil(datagram);
    return error_of(datagram);
  };
  using Bytes = std::vector<std::byte>;
  const auto expect = [&](ParseError expected, ParseError found) {
    BOOST_TEST(name(found) == name(expected));
  };

  expect(ParseError::too_short, error_of({}));
  expect(ParseError::too_short, with(Opcode::send_only, 0, [](Bytes& d) { d.pop_back(); }));
  expect(ParseError::too_short, with(Opcode::write_only, 0, [](Bytes& d) { d.erase(d.end() - 4, d.end()); }));
  expect(ParseError::bad_version, with(Opcode::send_only, 8, [](Bytes& d) { d[1] |= std::byte{1}; }));
  expect(ParseError::unknown_opcode, with(Opcode::send_only, 8, [](Bytes& d) { d[0] = std::byte{0x15}; }));
  expect(ParseError::bad_partition, with(Opcode::send_only, 8, [](Bytes& d) { d[3] = std::byte{0x01}; }));
  expect(ParseError::bad_length, with(Opcode::send_only, 8, [](Bytes& d) { d.pop_back(); }));
  expect(ParseError::bad_length,
         with(Opcode::acknowledge, 0, [](Bytes& d) { d.insert(d.end(), 4, std::byte{0}); }));
  expect(ParseError::bad_pad, with(Opcode::send_only, 0, [](Bytes& d) { d[1] |= std::byte{0x10}; }));
  // In these packets, two lengths contradict each other.
  constexpr std::size_t kRemaining = kBthBytes + 16, kWords = kBthBytes + kAethBytes + 3;
  expect(ParseError::bad_length,
         with(Opcode::x_write_last, 8, [](Bytes& d) { store_be(&d[kRemaining], 9u); }));
  expect(ParseError::bad_length, with(Opcode::x_write, 8, [](Bytes& d) { store_be(&d[kRemaining], 8u); }));
  expect(ParseError::bad_length, with(Opcode::x_acknowledge, 0, [](Bytes& d) {
           d.resize(kBthBytes + kAethBytes + kXAckFixedBytes + 200 * 4 + kIcrcBytes);
           d[kWords] = std::byte{200};
         }));
  expect(ParseError::too_short, with(Opcode::x_acknowledge, 0, [](Bytes& d) {
           d.resize(kBthBytes + kAethBytes + kXAckFixedBytes + 3 * 4 + kIcrcBytes);
           d[kWords] = std::byte{4};
         }));
}

BOOST_AUTO_TEST_SUITE_END()
