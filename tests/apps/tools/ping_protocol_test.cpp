#include "apps/tools/ping_protocol.hpp"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(ping_protocol_test)

using namespace rdmc;
using namespace rdmc::tools;

namespace {

std::string text_of(std::uint32_t number, std::size_t size) {
  std::vector<std::byte> bytes(size);
  fill_ping(bytes, number);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_buffer_is_told_in_sixteen_big_endian_bytes) {
  const auto bytes =
      encode(PingBuffer{.address = 0x0102030405060708, .key = RemoteKey{0x090A0B0C}, .bytes = 64});
  for (std::size_t i = 0; i < 12; ++i) BOOST_TEST(std::to_integer<std::size_t>(bytes[i]) == i + 1);
  BOOST_TEST(std::to_integer<int>(bytes[15]) == 64);
  const auto buffer = decode_ping_buffer(bytes);
  BOOST_REQUIRE(buffer);
  BOOST_TEST(buffer->address == 0x0102030405060708u);
  BOOST_TEST(value_of(buffer->key) == 0x090A0B0Cu);
  BOOST_TEST(buffer->bytes == 64u);
  BOOST_TEST(!decode_ping_buffer(std::span(bytes).first(15)));
}

// The expected texts are those that rping -v prints.
BOOST_AUTO_TEST_CASE(the_text_is_rpings) {
  BOOST_TEST(text_of(0, 64) ==
             std::string("rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr") + '\0');
  BOOST_TEST(text_of(1, 64) ==
             std::string("rdma-ping-1: BCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrs") + '\0');
  // After z, the letters begin again with A.
  BOOST_TEST(text_of(58, 32).substr(14) == std::string("ABCDEFGHIJKLMNOPQ") + '\0');
  BOOST_TEST(text_of(4'294'967'295, kLeastPingBytes).back() == '\0');
}

BOOST_AUTO_TEST_CASE(a_text_ends_with_its_first_nul) {
  std::vector<std::byte> bytes(100);
  fill_ping(bytes, 7);
  BOOST_TEST(ping_length(bytes) == 100u);
  bytes[40] = std::byte{0};
  BOOST_TEST(ping_length(bytes) == 41u);
  BOOST_TEST(ping_length(std::span(bytes).first(40)) == 40u);
}

BOOST_AUTO_TEST_SUITE_END()
