#include "dataplane/cm/messages.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <set>

#include "dataplane/base/bytes.hpp"
#include "dataplane/base/random.hpp"

BOOST_AUTO_TEST_SUITE(messages_test)

using namespace rdmc;
using namespace rdmc::cm;

namespace {

CommunicationId random_id(Random& random) {
  return CommunicationId{static_cast<std::uint32_t>(random.next())};
}
std::uint8_t bits(Random& random, int count) {
  return static_cast<std::uint8_t>(random.below(1U << count));
}
std::vector<std::byte> random_bytes(Random& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}
Address random_host(Random& random, bool ipv6) {
  Address address{.ipv6 = ipv6};
  for (std::size_t i = 0; i < (ipv6 ? 16 : 4); ++i)
    address.bytes[i] = static_cast<std::uint8_t>(random.next());
  address.bytes[0] = ipv6 ? 0xFD : 10;
  return address;
}
QueuePairParameters random_queue_pair(Random& random) {
  return {.qpn = Qpn{static_cast<std::uint32_t>(random.between(2, Psn::kMask))},
          .starting_psn = Psn(static_cast<std::uint32_t>(random.next())),
          .responder_resources = bits(random, 8),
          .initiator_depth = bits(random, 8),
          .rnr_retry_count = bits(random, 3)};
}
Request random_request(Random& random, bool ipv6) {
  return {.local = random_id(random),
          .service_id = random.next(),
          .adapter_guid = random.next(),
          .queue_pair = random_queue_pair(random),
          .response_timeout = bits(random, 5),
          .retry_count = bits(random, 3),
          .cm_retries = bits(random, 4),
          .path_mtu = 256U << random.below(5),
          .ack_timeout = bits(random, 5),
          .local_address = random_host(random, ipv6),
          .remote_address = random_host(random, ipv6),
          .hop_limit = bits(random, 8),
          .traffic_class = bits(random, 8),
          .private_data = random_bytes(random, kRequestPrivateBytes)};
}

// Checks that decoding loses nothing: the decoded message must encode to the same bytes.
void check_round_trip(const Message& message) {
  const Mad mad = encode(message);
  const auto decoded = decode(mad);
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(decoded->transaction == message.transaction);
  RC_ASSERT(decoded->body.index() == message.body.index());
  RC_ASSERT(encode(*decoded) == mad);
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_message_is_read_back_as_it_was_written) {
  rc::check([](std::uint64_t seed, bool ipv6) {
    Random random(seed);
    const auto local = random_id(random), remote = random_id(random);
    const auto answered = static_cast<Answered>(random.below(3));
    const std::uint64_t transaction = random.next();
    const Request request = random_request(random, ipv6);
    check_round_trip({transaction, request});
    const auto again = std::get<Request>(decode(encode({transaction, request}))->body);
    RC_ASSERT(again.local_address == request.local_address && again.remote_address == request.remote_address);
    RC_ASSERT(again.path_mtu == request.path_mtu && again.private_data == request.private_data);
    RC_ASSERT(again.queue_pair.starting_psn == request.queue_pair.starting_psn);
    check_round_trip({transaction, Reply{local, remote, random.next(), random_queue_pair(random),
                                         random_bytes(random, kReplyPrivateBytes)}});
    check_round_trip({transaction, Reject{local, remote, answered, RejectReason::stale_connection,
                                          random_bytes(random, kRejectPrivateBytes)}});
    check_round_trip({transaction, MessageReceived{local, remote, answered, bits(random, 5)}});
    check_round_trip({transaction, ReadyToUse{local, remote}});
    check_round_trip({transaction, DisconnectRequest{local, remote, Qpn{0xABCDEF}}});
    check_round_trip({transaction, DisconnectReply{local, remote}});
  });
}

// The expected bytes follow table 106, and the header follows 13.4.3.
BOOST_AUTO_TEST_CASE(the_fields_of_a_request_stand_where_the_specification_puts_them) {
  Random random(1);
  Request request = random_request(random, false);
  request.service_id = service_of(7174);
  request.path_mtu = 4096;
  request.queue_pair.rnr_retry_count = 7;
  request.local_address = Address::ipv4(10, 78, 0, 1, 0);
  const Mad mad = encode({0x0102030405060708, request});
  const std::byte* const at = mad.data();
  BOOST_TEST(load_be<std::uint32_t>(at) == 0x01070203u);
  BOOST_TEST(load_be<std::uint64_t>(at + 8) == 0x0102030405060708u);
  BOOST_TEST(load_be<std::uint16_t>(at + 16) == 0x0010u);
  BOOST_TEST(load_be<std::uint32_t>(at + 24) == value_of(request.local));
  BOOST_TEST(load_be<std::uint64_t>(at + 24 + 8) == 0x0000000001061C06u);
  BOOST_TEST(load_be24(at + 24 + 32) == value_of(request.queue_pair.qpn));
  BOOST_TEST(load_be24(at + 24 + 44) == request.queue_pair.starting_psn.value());
  BOOST_TEST(load_be<std::uint16_t>(at + 24 + 48) == 0xFFFFu);
  BOOST_TEST(std::to_integer<int>(at[24 + 50]) == 0x57);
  BOOST_TEST(load_be<std::uint64_t>(at + 24 + 56) == 0u);
  BOOST_TEST(load_be<std::uint64_t>(at + 24 + 64) == 0x0000FFFF0A4E0001u);
}

BOOST_AUTO_TEST_CASE(whatever_is_no_message_is_refused_by_name) {
  Random random(2);
  const Mad good = encode({1, random_request(random, false)});
  BOOST_REQUIRE(decode(good));
  const auto error_with = [&](std::size_t at, unsigned value) {
    Mad bad = good;
    bad[at] = static_cast<std::byte>(value);
    const auto decoded = decode(bad);
    BOOST_REQUIRE(!decoded);
    return decoded.error();
  };
  BOOST_TEST((error_with(1, 0x81) == ParseError::not_connection_management));
  BOOST_TEST((error_with(3, 0x01) == ParseError::not_connection_management));
  BOOST_TEST((error_with(17, 0x20) == ParseError::unknown_message));
  BOOST_TEST((error_with(24 + 50, 0x67) == ParseError::bad_field));  // This is path MTU code 6.
  BOOST_TEST((error_with(24 + 50, 0x07) == ParseError::bad_field));
  BOOST_TEST((error_with(24 + 43, 0x02) == ParseError::bad_field));       // This is an unreliable transport.
  BOOST_TEST((error_with(24 + 56 + 12, 0xE0) == ParseError::bad_field));  // This is a multicast address.
  for (std::size_t size = 0; size < kMadBytes; ++size)
    BOOST_TEST((decode(std::span(good).first(size)).error() == ParseError::too_short));
  // Random bytes must not crash the decoder.
  rc::check([&](std::uint64_t seed) {
    Random noise(seed);
    Mad mad = good;
    for (std::size_t i = 17; i < mad.size(); ++i) mad[i] = static_cast<std::byte>(noise.next());
    mad[17] = static_cast<std::byte>(noise.between(0x0F, 0x18));
    if (const auto decoded = decode(mad)) RC_ASSERT(decode(encode(*decoded)).has_value());
  });
}

BOOST_AUTO_TEST_CASE(the_ip_header_of_rdma_cm_carries_both_families_and_the_source_port) {
  rc::check([](std::uint64_t seed, bool ipv6) {
    Random random(seed);
    IpHeader header{random_host(random, ipv6), random_host(random, ipv6)};
    header.source.port = static_cast<std::uint16_t>(random.next());
    const auto bytes = encode(header);
    const auto decoded = decode_ip_header(bytes);
    RC_ASSERT(decoded.has_value());
    RC_ASSERT(decoded->source == header.source && decoded->destination == header.destination);
    RC_ASSERT(!decode_ip_header(std::span(bytes).first(bytes.size() - 1)));
  });
  auto bytes = encode(IpHeader{Address::ipv4(10, 0, 0, 1, 5), Address::ipv4(10, 0, 0, 2, 0)});
  BOOST_TEST(std::to_integer<int>(bytes[1]) == 0x40);
  BOOST_TEST(std::to_integer<int>(bytes[16]) == 10);  // The address is in the last four of sixteen bytes.
  bytes[1] = std::byte{0x50};
  BOOST_TEST(!decode_ip_header(bytes));
}

BOOST_AUTO_TEST_CASE(every_reason_for_a_rejection_is_told_in_words_of_its_own) {
  std::set<std::string> words;
  for (unsigned number = 0; number < 40; ++number) words.insert(explain(static_cast<RejectReason>(number)));
  BOOST_TEST(words.size() == 40u);
  BOOST_TEST(!words.contains(""));
  BOOST_TEST(explain(RejectReason::invalid_service_id) == "nobody listens on that port");
  BOOST_TEST(explain(RejectReason::invalid_path_mtu) == "its link does not carry that path MTU");
  BOOST_TEST(explain(RejectReason::consumer) == "its program said no");
  BOOST_TEST(explain(static_cast<RejectReason>(999)).find("999") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
