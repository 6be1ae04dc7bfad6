#include "controlplane/auth/random.hpp"

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <set>

namespace rdmc::control {
BOOST_AUTO_TEST_SUITE(random_test)

BOOST_AUTO_TEST_CASE(fills_every_byte_of_a_buffer_larger_than_one_system_call_gives) {
  // A signal may end a getrandom call early, after 256 bytes. A byte that is zero in all 8 rounds was not
  // filled. A filled byte is zero in all 8 rounds with probability 256^-8.
  std::array<unsigned, 4096> ored{};
  for (int round = 0; round < 8; ++round) {
    std::array<std::byte, 4096> bytes{};
    BOOST_TEST_REQUIRE(fill_random(bytes).has_value());
    for (std::size_t i = 0; i < bytes.size(); ++i) ored[i] |= std::to_integer<unsigned>(bytes[i]);
  }
  BOOST_TEST(std::ranges::none_of(ored, [](unsigned b) { return b == 0; }));
}

BOOST_AUTO_TEST_CASE(numbers_stay_in_their_ranges_and_use_the_whole_of_them) {
  const auto random = SystemRandom::open().value();
  std::uint32_t qpns = 0;
  std::uint32_t psns = 0;
  std::uint32_t keys = 0;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 2000; ++i) {
    const auto qpn = value_of(random.qpn());
    BOOST_TEST((qpn >= 2 && qpn <= 0xFF'FFFF));
    qpns |= qpn;
    psns |= random.psn().value();
    const auto key = value_of(random.remote_key());
    BOOST_TEST(key != 0u);
    keys |= key;
    seen.insert(random.next64());
  }
  BOOST_TEST(qpns == 0xFF'FFFFu);
  BOOST_TEST(psns == 0xFF'FFFFu);
  BOOST_TEST(keys == 0xFFFF'FFFFu);
  BOOST_TEST(seen.size() == 2000u);
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control
