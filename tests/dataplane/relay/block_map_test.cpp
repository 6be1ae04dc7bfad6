#include "dataplane/relay/block_map.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <set>

BOOST_AUTO_TEST_SUITE(block_map_test)

using namespace rdmc;
using namespace rdmc::relay;

namespace {

/// A map, and the plain set that must have the same blocks.
struct Model {
  BlockMap map;
  std::set<std::uint64_t> blocks;
};

Model random_model(std::uint64_t universe) {
  Model model{BlockMap(universe), {}};
  const auto inserts = *rc::gen::inRange(0, 30);
  for (int i = 0; i < inserts; ++i) {
    const auto begin = *rc::gen::inRange<std::uint64_t>(0, universe);
    const auto end = *rc::gen::inRange<std::uint64_t>(begin + 1, std::min(universe, begin + 12) + 1);
    model.map.insert({begin, end});
    for (auto block = begin; block < end; ++block) model.blocks.insert(block);
  }
  return model;
}

std::set<std::uint64_t> members(const BlockMap& map) {
  std::set<std::uint64_t> result;
  for (const auto& range : map.ranges()) {
    for (auto block = range.begin; block < range.end; ++block) result.insert(block);
  }
  return result;
}

bool is_normal(const BlockMap& map) {
  std::uint64_t count = 0;
  const BlockRange* previous = nullptr;
  for (const auto& range : map.ranges()) {
    if (range.begin >= range.end || range.end > map.blocks()) return false;
    if (previous != nullptr && previous->end >= range.begin) return false;
    previous = &range;
    count += range.end - range.begin;
  }
  return count == map.count();
}

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_map_holds_what_was_put_in) {
  BOOST_TEST(rc::check([] {
    const auto universe = *rc::gen::inRange<std::uint64_t>(1, 200);
    const auto [map, blocks] = random_model(universe);
    RC_ASSERT(is_normal(map));
    RC_ASSERT(members(map) == blocks);
    for (std::uint64_t block = 0; block < universe; ++block)
      RC_ASSERT(map.contains(block) == blocks.contains(block));
    RC_ASSERT(map.is_full() == (blocks.size() == universe));
  }));
}

BOOST_AUTO_TEST_CASE(union_intersection_and_complement_are_those_of_sets) {
  BOOST_TEST(rc::check([] {
    const auto universe = *rc::gen::inRange<std::uint64_t>(1, 200);
    const auto a = random_model(universe);
    const auto b = random_model(universe);
    const auto either = a.map | b.map;
    const auto both = a.map & b.map;
    const auto rest = a.map.complement();
    RC_ASSERT(is_normal(either) && is_normal(both) && is_normal(rest));
    for (std::uint64_t block = 0; block < universe; ++block) {
      const bool in_a = a.blocks.contains(block);
      const bool in_b = b.blocks.contains(block);
      RC_ASSERT(either.contains(block) == (in_a || in_b));
      RC_ASSERT(both.contains(block) == (in_a && in_b));
      RC_ASSERT(rest.contains(block) == !in_a);
    }
  }));
}

BOOST_AUTO_TEST_CASE(a_map_survives_the_wire) {
  BOOST_TEST(rc::check([] {
    const auto map = random_model(*rc::gen::inRange<std::uint64_t>(1, 200)).map;
    const auto decoded = BlockMap::decode(map.encode(), map.blocks());
    RC_ASSERT(decoded.has_value());
    RC_ASSERT(*decoded == map);
  }));
}

BOOST_AUTO_TEST_CASE(any_bytes_are_refused_or_are_the_one_spelling_of_a_map) {
  BOOST_TEST(rc::check([] {
    auto input = random_model(100).map.encode();
    const auto changes = *rc::gen::inRange(0, 4);
    for (int i = 0; i < changes && !input.empty(); ++i) {
      const auto at = *rc::gen::inRange<std::size_t>(0, input.size());
      switch (*rc::gen::inRange(0, 3)) {
        case 0: input[at] = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>()); break;
        case 1: input.erase(input.begin() + static_cast<std::ptrdiff_t>(at)); break;
        default: input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), std::byte{0x80});
      }
    }
    const auto decoded = BlockMap::decode(input, 100);
    if (!decoded) {
      RC_ASSERT(decoded.error().code == Errc::protocol_error);
    } else {
      RC_ASSERT(is_normal(*decoded));
      RC_ASSERT(decoded->encode() == input);
    }
  }));
}

BOOST_AUTO_TEST_CASE(malformed_maps_are_refused) {
  const std::vector<std::byte> cases[] = {
      bytes({}),                            // There are no bytes.
      bytes({10}),                          // The number of ranges is missing.
      bytes({10, 1, 0}),                    // The range has no length.
      bytes({10, 1, 0, 11}),                // The range is longer than the file.
      bytes({10, 1, 11, 1}),                // The range begins after the end of the file.
      bytes({10, 1, 0, 0}),                 // The range is empty.
      bytes({10, 2, 0, 1, 0, 1}),           // The two ranges touch.
      bytes({10, 1, 0, 1, 0}),              // There are more bytes than ranges.
      bytes({11, 0}),                       // This is the map of another file.
      bytes({0x8A, 0x00, 0}),               // The number 10 uses two bytes.
      bytes({10, 0xFF, 0xFF, 0xFF, 0x7F}),  // There are two hundred million ranges.
      bytes({10, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01,
             2}),  // The gap would wrap around.
      // The number has more than 64 bits.
      bytes({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02}),
  };
  for (const auto& input : cases)
    BOOST_TEST(!BlockMap::decode(input, 10).has_value(), "accepted " << input.size());
  BOOST_TEST(BlockMap::decode(bytes({10, 1, 2, 8}), 10).value().count() == 8u);
}

BOOST_AUTO_TEST_CASE(the_map_of_a_huge_file_is_a_few_bytes) {
  BlockMap map(std::uint64_t{1} << 60);
  map.insert({0, std::uint64_t{1} << 59});
  map.insert((std::uint64_t{1} << 60) - 1);
  BOOST_TEST(map.encode().size() < 50u);
  BOOST_TEST((BlockMap::decode(map.encode(), map.blocks()).value() == map));
  BOOST_TEST(map.complement().count() == (std::uint64_t{1} << 59) - 1);
}

BOOST_AUTO_TEST_CASE(a_superset_fills_the_smallest_gaps_first) {
  BlockMap map(100);
  map.insert({0, 10});
  map.insert({12, 20});
  map.insert({50, 60});
  map.insert({61, 70});
  BOOST_TEST((map.superset(4) == map));
  const auto three = map.superset(3);
  BOOST_REQUIRE(three.ranges().size() == 3u);
  BOOST_TEST((three.ranges()[2] == BlockRange{50, 70}));
  BOOST_TEST((map.superset(2).ranges()[0] == BlockRange{0, 20}));
  BOOST_TEST((map.superset(1).ranges()[0] == BlockRange{0, 70}));
}

BOOST_AUTO_TEST_CASE(a_superset_loses_nothing_and_keeps_its_bound) {
  BOOST_TEST(rc::check([] {
    const auto map = random_model(*rc::gen::inRange<std::uint64_t>(1, 200)).map;
    const auto bound = *rc::gen::inRange<std::size_t>(1, 10);
    const auto larger = map.superset(bound);
    RC_ASSERT(is_normal(larger));
    RC_ASSERT((larger & map) == map);
    RC_ASSERT(larger.ranges().size() == std::min(bound, map.ranges().size()));
  }));
}

BOOST_AUTO_TEST_SUITE_END()
