#include "dataplane/fabric/arrived_checksums.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <functional>

BOOST_AUTO_TEST_SUITE(arrived_checksums_test)

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
  arrived.record(bytes.subspan(0, 8192), 1);
  arrived.record(bytes.subspan(100, 4096), 2);
  BOOST_TEST(!arrived.find(bytes.subspan(0, 8192)));
  BOOST_TEST(arrived.find(bytes.subspan(100, 4096)).value() == 2u);
}

BOOST_FIXTURE_TEST_CASE(a_short_packet_is_not_kept_and_drops_what_it_replaces, Fixture) {
  arrived.record(bytes.subspan(0, 8192), 1);
  arrived.record(bytes.subspan(100, 4095), 2);
  BOOST_TEST(!arrived.find(bytes.subspan(0, 8192)));
  BOOST_TEST(!arrived.find(bytes.subspan(100, 4095)));
}

BOOST_FIXTURE_TEST_CASE(packets_outside_of_regions_are_not_kept, Fixture) {
  std::vector<std::byte> other(8192);
  arrived.record(other, 1);
  BOOST_TEST(!arrived.find(other));
}

BOOST_FIXTURE_TEST_CASE(a_packet_need_not_begin_at_a_page, Fixture) {
  for (std::size_t i = 0; i < 7; ++i)
    arrived.record(bytes.subspan(8928 * i, 8928), static_cast<std::uint32_t>(i));
  for (std::size_t i = 0; i < 7; ++i) BOOST_TEST(arrived.find(bytes.subspan(8928 * i, 8928)).value() == i);
}

BOOST_AUTO_TEST_CASE(what_is_known_is_what_came_last_and_nothing_of_bytes_that_have_changed_since) {
  struct Packet {
    std::size_t begin, bytes;
    std::uint32_t crc;
  };
  rc::check([] {
    Fixture f;
    std::vector<Packet> known, gone;
    const auto forget_if = [&](auto predicate) {
      const auto from = std::ranges::stable_partition(known, std::not_fn(predicate)).begin();
      gone.insert(gone.end(), from, known.end());
      known.erase(from, known.end());
    };
    for (std::uint32_t crc = 1; crc <= 60; ++crc) {
      const auto begin = *rc::gen::inRange<std::size_t>(0, 60'000);
      const auto end = std::min(begin + *rc::gen::inRange<std::size_t>(1, 20'000), f.bytes.size());
      const auto packet = f.bytes.subspan(begin, end - begin);
      forget_if([&](const Packet& p) { return p.begin < end && begin < p.begin + p.bytes; });
      if (*rc::gen::inRange(0, 4) == 0) {
        f.arrived.forget(packet);
      } else {
        f.arrived.record(packet, crc);
        const Packet recorded{begin, end - begin, crc};
        std::erase_if(gone, [&](const Packet& p) { return p.begin == begin && p.bytes == end - begin; });
        (ArrivedChecksums::remembers(recorded.bytes) ? known : gone).push_back(recorded);
      }
      for (const Packet& p : known) RC_ASSERT(f.arrived.find(f.bytes.subspan(p.begin, p.bytes)) == p.crc);
      for (const Packet& p : gone) RC_ASSERT(!f.arrived.find(f.bytes.subspan(p.begin, p.bytes)));
    }
  });
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

BOOST_AUTO_TEST_SUITE_END()
