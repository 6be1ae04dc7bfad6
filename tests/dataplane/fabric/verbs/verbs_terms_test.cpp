#include "dataplane/fabric/verbs/verbs_terms.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>

BOOST_AUTO_TEST_SUITE(verbs_terms_test)

using namespace rdmc;
using namespace rdmc::fabric;

BOOST_AUTO_TEST_CASE(a_gid_is_the_ipv6_address_or_the_mapped_ipv4_one) {
  const auto four = gid_of(Address::ipv4(10, 1, 2, 3, 77));
  const std::uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 1, 2, 3};
  BOOST_TEST(std::memcmp(four.raw, mapped, 16) == 0);
  const auto address = parse_address("[fd78::2]:9", 0).value();
  BOOST_TEST(std::memcmp(gid_of(address).raw, address.bytes.data(), 16) == 0);
}

BOOST_AUTO_TEST_CASE(path_mtus_are_the_five_of_the_specification) {
  for (const std::uint32_t bytes : {256U, 512U, 1024U, 2048U, 4096U})
    BOOST_TEST(bytes_of(mtu_of(bytes)) == bytes);
  BOOST_TEST(mtu_of(1024) == IBV_MTU_1024);
}

BOOST_AUTO_TEST_CASE(an_ack_timeout_is_the_least_exponent_that_gives_the_patience) {
  for (const std::int64_t ms : {1, 10, 67, 536, 17'000, 60'000}) {
    for (const std::uint32_t tries : {1U, 8U}) {
      const int exponent = ack_timeout_exponent(milliseconds(ms), tries);
      const double least = 1e6 * static_cast<double>(ms) / tries, each = 4096 * std::exp2(exponent);
      BOOST_TEST(each >= least);
      BOOST_TEST((each < 2 * least || exponent == 8));
    }
  }
  BOOST_TEST(ack_timeout_exponent(seconds(1'000'000), 1) == 31);
}

BOOST_AUTO_TEST_CASE(every_outcome_has_words) {
  for (int status = IBV_WC_WR_FLUSH_ERR; status <= IBV_WC_GENERAL_ERR; ++status)
    BOOST_TEST(!text_of(static_cast<ibv_wc_status>(status)).empty());
  BOOST_TEST((status_of(IBV_WC_SUCCESS) == WorkStatus::success));
  BOOST_TEST((status_of(IBV_WC_WR_FLUSH_ERR) == WorkStatus::flushed));
  BOOST_TEST((status_of(IBV_WC_REM_ACCESS_ERR) == WorkStatus::remote_access));
}

BOOST_AUTO_TEST_SUITE_END()
