#include "apps/bcast-cli/file_shape.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <set>

BOOST_AUTO_TEST_SUITE(file_shape_test)

using namespace rdmc;
using namespace rdmc::bcast;

BOOST_AUTO_TEST_CASE(a_file_is_cut_into_equal_blocks_and_a_rest) {
  const FileShape shape{10'000, 4096};
  BOOST_TEST(shape.blocks() == 3u);
  BOOST_TEST(shape.offset(2) == 8192u);
  BOOST_TEST(shape.bytes(1) == 4096u);
  BOOST_TEST(shape.bytes(2) == 1808u);
  BOOST_TEST((FileShape{8192, 4096}.blocks()) == 2u);
  BOOST_TEST((FileShape{8192, 4096}.bytes(1)) == 4096u);
}

BOOST_AUTO_TEST_CASE(an_empty_file_is_one_block_of_no_bytes) {
  const FileShape shape{0, 4096};
  BOOST_TEST(shape.blocks() == 1u);
  BOOST_TEST(shape.bytes(0) == 0u);
  BOOST_TEST(VirtualBlocks(shape, BlockMap::full(1)).size() == 0u);
}

BOOST_AUTO_TEST_CASE(small_files_are_cut_into_smaller_blocks) {
  BOOST_TEST(default_block_size(0) == 64u << 10);
  BOOST_TEST(default_block_size(16 << 20) == 256u << 10);
  BOOST_TEST(default_block_size((32 << 20) - 1) == 256u << 10);
  BOOST_TEST(default_block_size(std::uint64_t{1} << 40) == 512u << 10);
}

BOOST_AUTO_TEST_CASE(a_shape_that_a_peer_claims_is_checked) {
  BOOST_TEST(FileShape::make(123, 4096).has_value());
  BOOST_TEST(!FileShape::make((std::uint64_t{1} << 62) + 1, 4096).has_value());
  for (const std::uint64_t block_size :
       {0ULL, 1ULL, 4095ULL, 4097ULL, 4ULL << 20, 1ULL << 32, (1ULL << 32) + 4096})
    BOOST_TEST(!FileShape::make(123, block_size).has_value(), "accepted " << block_size);
}

BOOST_AUTO_TEST_CASE(virtual_blocks_name_each_block_of_the_map_once_in_order) {
  BOOST_TEST(rc::check([] {
    const auto universe = *rc::gen::inRange<std::uint64_t>(1, 200);
    const auto blocks =
        *rc::gen::container<std::set<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, universe));
    BlockMap map(universe);
    for (const auto block : blocks) map.insert(block);
    const FileShape shape{universe * 100 - *rc::gen::inRange<std::uint64_t>(0, 100), 100};
    const VirtualBlocks row(shape, map);
    RC_ASSERT(row.count() == blocks.size());
    std::uint64_t index = 0;
    std::uint64_t size = 0;
    for (const auto block : blocks) {
      RC_ASSERT(row.real(index) == block);
      RC_ASSERT(row.bytes(index) == shape.bytes(block));
      size += shape.bytes(block);
      ++index;
    }
    RC_ASSERT(row.size() == size);
  }));
}

BOOST_AUTO_TEST_SUITE_END()
