#define BOOST_TEST_MODULE arrived_checksums
#include "dataplane/fabric/arrived_checksums.hpp"

#include <boost/test/unit_test.hpp>

using rdmc::fabric::ArrivedChecksums;

namespace {

struct Fixture {
  std::vector<std::byte> memory = std::vector<std::byte>(64 * 1024);
  std::span<std::byte> bytes{memory};
  ArrivedChecksums arrived;
  Fixture() { arrived.add_region(bytes); }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(what_arrived_as_one_packet_is_known_and_nothing_else, Fixture) {
  arrived.record(bytes.subspan(8192, 8192), 0xABCD);
  BOOST_TEST(arrived.find(bytes.subspan(8192, 8192)).value() == 0xABCDu);
  BOOST_TEST(!arrived.find(bytes.subspan(8192, 4096)));
  BOOST_TEST(!arrived.find(bytes.subspan(12'288, 4096)));
  BOOST_TEST(!arrived.find(bytes.subspan(0, 8192)));
  BOOST_TEST(!arrived.find(bytes.subspan(8193, 100)));
  BOOST_TEST(!arrived.find(bytes.subspan(8192, 0)));
}

BOOST_FIXTURE_TEST_CASE(a_later_arrival_in_the_same_place_replaces_the_earlier, Fixture) {
  arrived.record(bytes.subspan(0, 4096), 1);
  arrived.record(bytes.subspan(0, 100), 2);
  BOOST_TEST(!arrived.find(bytes.subspan(0, 4096)));
  BOOST_TEST(arrived.find(bytes.subspan(0, 100)).value() == 2u);
}

BOOST_FIXTURE_TEST_CASE(packets_off_the_granule_and_outside_of_regions_are_not_kept, Fixture) {
  std::vector<std::byte> other(8192);
  arrived.record(other, 1);
  arrived.record(bytes.subspan(100, 200), 2);
  BOOST_TEST(!arrived.find(other));
  BOOST_TEST(!arrived.find(bytes.subspan(100, 200)));
}

BOOST_FIXTURE_TEST_CASE(a_region_that_is_gone_takes_its_checksums_with_it, Fixture) {
  arrived.record(bytes.subspan(0, 4096), 1);
  arrived.remove_region(bytes);
  BOOST_TEST(arrived.empty());
  arrived.add_region(bytes);
  BOOST_TEST(!arrived.find(bytes.subspan(0, 4096)));
}

BOOST_FIXTURE_TEST_CASE(a_block_that_comes_in_other_packets_than_its_predecessor_leaves_nothing_of_it,
                        Fixture) {
  for (std::size_t at = 0; at < 16'384; at += 4096) arrived.record(bytes.subspan(at, 4096), 1);
  arrived.record(bytes.subspan(0, 8192), 2);
  BOOST_TEST(!arrived.find(bytes.subspan(4096, 4096)));
  BOOST_TEST(arrived.find(bytes.subspan(8192, 4096)).value() == 1u);
  arrived.forget(bytes.subspan(8000, 200));
  BOOST_TEST(!arrived.find(bytes.subspan(8192, 4096)));
  BOOST_TEST(arrived.find(bytes.subspan(12'288, 4096)).value() == 1u);
}
