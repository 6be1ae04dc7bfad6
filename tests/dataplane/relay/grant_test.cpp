// Tests the 32 bytes of a grant. Decoding must give the grant that was encoded. Invalid bytes from a peer
// must be refused.
#include "dataplane/relay/grant.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <vector>

namespace rdmc::relay {
BOOST_AUTO_TEST_SUITE(grant_test)
namespace {

BOOST_AUTO_TEST_CASE(a_grant_is_laid_out_big_endian) {
  const auto bytes = encode({.limit = 0x0102030405060708,
                             .remote_address = 0x1112131415161718,
                             .slots = 0x2122232425262728,
                             .key = RemoteKey{0x31323334},
                             .slot_id = 0x4142});
  const std::vector<int> expected{0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x11, 0x12, 0x13,
                                  0x14, 0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26,
                                  0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0,    0};
  BOOST_TEST(std::ranges::equal(bytes, expected, {}, [](std::byte b) { return std::to_integer<int>(b); }));
}

BOOST_AUTO_TEST_CASE(every_grant_survives_encoding) {
  BOOST_TEST(rc::check("decode(encode(grant)) == grant", [] {
    BlockGrant grant;
    grant.first_only = *rc::gen::arbitrary<bool>();
    grant.limit = grant.first_only ? 1 : *rc::gen::positive<std::uint64_t>();
    grant.slots = grant.first_only ? 1 : *rc::gen::positive<std::uint64_t>();
    grant.remote_address = *rc::gen::arbitrary<std::uint64_t>();
    grant.key = RemoteKey{*rc::gen::arbitrary<std::uint32_t>()};
    grant.slot_id = *rc::gen::arbitrary<std::uint16_t>();
    RC_ASSERT(decode_grant(encode(grant)).value() == grant);
  }));
}

BOOST_AUTO_TEST_CASE(any_other_bytes_are_refused_or_read_back_as_they_are) {
  BOOST_TEST(rc::check("decode never accepts what encode would not write", [] {
    auto bytes =
        *rc::gen::container<std::vector<std::uint8_t>>(kGrantBytes, rc::gen::arbitrary<std::uint8_t>());
    if (*rc::gen::arbitrary<bool>()) bytes[30] = bytes[31] = 0;
    const auto grant = decode_grant(std::as_bytes(std::span(bytes)));
    if (grant) RC_ASSERT(std::ranges::equal(encode(*grant), std::as_bytes(std::span(bytes))));
  }));
}

BOOST_AUTO_TEST_CASE(bad_grants_are_protocol_errors) {
  const BlockGrant good{.limit = 4, .remote_address = 1, .slots = 4, .key = RemoteKey{9}, .slot_id = 2};
  const auto refused = [](std::span<const std::byte> bytes) {
    const auto grant = decode_grant(bytes);
    return !grant && grant.error().code == Errc::protocol_error;
  };
  const auto bytes = encode(good);
  BOOST_TEST(!refused(bytes));
  for (std::size_t size = 0; size < kGrantBytes; ++size) BOOST_TEST(refused(std::span(bytes).first(size)));
  BOOST_TEST(refused(std::vector<std::byte>(kGrantBytes + 1)));
  for (const std::size_t at : {30, 31}) {
    auto changed = bytes;
    changed[at] = std::byte{2};
    BOOST_TEST(refused(changed));
  }
  BlockGrant nothing = good;
  nothing.limit = 0;
  BOOST_TEST(refused(encode(nothing)));
  nothing = good;
  nothing.slots = 0;
  BOOST_TEST(refused(encode(nothing)));
  BlockGrant first = good;
  first.first_only = true;
  BOOST_TEST(refused(encode(first)));
}

BOOST_AUTO_TEST_CASE(an_immediate_carries_the_slot_id_and_16_bits_of_the_index) {
  BOOST_TEST(immediate_of(0xABCD, 0x12345678) == 0xABCD5678);
  BOOST_TEST(slot_id_of(0xABCD5678) == 0xABCD);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::relay
