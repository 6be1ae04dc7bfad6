#include "dataplane/fabric/shm/shm_blob.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(shm_blob_test)

using namespace rdmc;
using namespace rdmc::fabric::shm;

namespace {

ShmBlob example() {
  std::uint32_t next = 0x01020304;
  const auto entropy = [&next] { return next += 0x01010101; };
  return {.listener = fresh_token(entropy),
          .queue_pair = fresh_token(entropy),
          .host_id = 0x1122334455667788,
          .user = 1000};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_blob_survives_its_bytes) {
  const auto decoded = decode_shm_blob(encode(example()));
  BOOST_REQUIRE(decoded);
  BOOST_TEST((*decoded == example()));
}

BOOST_AUTO_TEST_CASE(anything_else_is_refused_by_name) {
  auto bytes = encode(example());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto cut = decode_shm_blob(std::span(bytes).first(size));
    BOOST_REQUIRE(!cut);
    BOOST_TEST((cut.error().code == Errc::protocol_error));
  }
  bytes.push_back({});
  BOOST_TEST(!decode_shm_blob(bytes));
  bytes.pop_back();
  bytes[4] = std::byte{9};
  BOOST_TEST((decode_shm_blob(bytes).error().code == Errc::version_mismatch));
  bytes[0] = std::byte{0};
  BOOST_TEST((decode_shm_blob(bytes).error().code == Errc::protocol_error));
}

BOOST_AUTO_TEST_SUITE_END()
