#include "dataplane/crypto/packet_seal.hpp"

#include <rapidcheck.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>
#include <vector>

#include "dataplane/base/random.hpp"

using namespace rdmc;
using namespace rdmc::crypto;

namespace {

PacketKey key_of(std::uint64_t seed) {
  Random random(seed);
  PacketKey key;
  for (std::byte& byte : key) byte = static_cast<std::byte>(random.next());
  return key;
}

std::vector<std::byte> bytes_of(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

struct Sealed {
  std::vector<std::byte> header, payload, seal = std::vector<std::byte>(kSealBytes);
};

Sealed sealed_by(PacketSealer& sealer, const std::vector<std::byte>& header,
                 const std::vector<std::byte>& payload) {
  Sealed packet{.header = header, .payload = std::vector<std::byte>(payload.size())};
  BOOST_REQUIRE(sealer.seal(packet.header, payload, packet.payload.data(), packet.seal.data()));
  return packet;
}

Authenticity opened(PacketOpener& opener, Sealed& packet) {
  return opener.open(packet.header, packet.payload, packet.seal.data());
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_was_sealed_opens_in_any_order_and_a_bit_changed_anywhere_is_noticed) {
  BOOST_TEST(rc::check([] {
    auto sealer = *PacketSealer::make(key_of(1));
    auto opener = *PacketOpener::make(key_of(1));
    const auto header = bytes_of(2, *rc::gen::inRange<std::size_t>(12, 185));
    const auto payload = bytes_of(3, *rc::gen::oneOf(rc::gen::inRange<std::size_t>(0, 40),
                                                     rc::gen::element<std::size_t>(4096, 61'440)));
    std::vector<Sealed> packets;
    for (int i = 0; i < 4; ++i) packets.push_back(sealed_by(sealer, header, payload));
    auto changed = packets[0];
    std::array<std::vector<std::byte>*, 3> parts{&changed.header, &changed.payload, &changed.seal};
    std::size_t bit = *rc::gen::inRange<std::size_t>(0, 8 * (header.size() + payload.size() + kSealBytes));
    for (auto* part : parts) {
      if (bit < 8 * part->size()) {
        (*part)[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        break;
      }
      bit -= 8 * part->size();
    }
    RC_ASSERT(opened(opener, changed) == Authenticity::forged);
    for (const std::size_t i : std::array{2UL, 0UL, 3UL, 1UL}) {
      RC_ASSERT(opened(opener, packets[i]) == Authenticity::authentic);
      RC_ASSERT(packets[i].payload == payload);
    }
  }));
}

BOOST_AUTO_TEST_CASE(another_key_or_another_salt_opens_nothing) {
  for (const std::size_t differs_at : std::array<std::size_t, 2>{0, 35}) {
    auto other = key_of(1);
    other[differs_at] ^= std::byte{1};
    auto sealer = *PacketSealer::make(key_of(1));
    auto opener = *PacketOpener::make(other);
    auto packet = sealed_by(sealer, bytes_of(2, 36), bytes_of(3, 100));
    BOOST_TEST((opened(opener, packet) == Authenticity::forged));
  }
}

BOOST_AUTO_TEST_CASE(a_key_differs_with_either_share_and_with_the_direction) {
  const auto share = [](unsigned number) {
    KeyShare made;
    made.fill(static_cast<std::byte>(number));
    return made;
  };
  std::set<PacketKey> keys;
  for (unsigned receiver = 0; receiver < 4; ++receiver)
    for (unsigned sender = 0; sender < 4; ++sender)
      keys.insert(packet_key(share(receiver), share(sender)).value());
  BOOST_TEST(keys.size() == 16u);
  // This Python 3 code gives the expected bytes:
  // hashlib.sha512(b"\0\0\0\1" + b"\1" * 32 + b"\2" * 32 + b"rdmc packets").digest()[:4]
  constexpr std::array<std::uint8_t, 4> kExpected{0x6D, 0xB3, 0x03, 0xC2};
  const auto key = packet_key(share(1), share(2)).value();
  BOOST_TEST(std::ranges::equal(std::as_bytes(std::span(kExpected)), std::span(key).first(4)));
}

BOOST_AUTO_TEST_CASE(the_same_packet_never_looks_the_same_twice) {
  auto sealer = *PacketSealer::make(key_of(1));
  std::set<std::vector<std::byte>> payloads, seals;
  for (int i = 0; i < 100; ++i) {
    const auto packet = sealed_by(sealer, bytes_of(2, 36), std::vector<std::byte>(32));
    payloads.insert(packet.payload);
    seals.insert(packet.seal);
  }
  BOOST_TEST(payloads.size() == 100u);
  BOOST_TEST(seals.size() == 100u);
}

BOOST_AUTO_TEST_CASE(a_packet_that_too_many_have_overtaken_is_stale) {
  auto sealer = *PacketSealer::make(key_of(1));
  auto opener = *PacketOpener::make(key_of(1));
  const auto header = bytes_of(2, 12);
  const auto first = sealed_by(sealer, header, {}), second = sealed_by(sealer, header, {});
  Sealed newest = first;
  for (std::uint64_t i = 0; i < PacketOpener::kMostOvertaken - 1; ++i)
    BOOST_REQUIRE(sealer.seal(header, {}, nullptr, newest.seal.data()));
  for (const Sealed& packet : {first, newest, second}) {
    Sealed copy = packet;
    BOOST_TEST((opened(opener, copy) == Authenticity::authentic));
  }
  for (auto [packet, expected] :
       {std::pair{first, Authenticity::stale}, std::pair{second, Authenticity::authentic}}) {
    BOOST_TEST((opened(opener, packet) == expected));
  }
}
