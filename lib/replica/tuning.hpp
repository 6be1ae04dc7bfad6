// The sizes at which collective operations change from one algorithm to another one. Plain values. All ranks
// must use the same ones, because all ranks must choose the same algorithm.
#pragma once

#include <cstddef>

namespace rdmc::replica::collectives {

struct Tuning {
  /// The number of bytes that a rank could send in the time that it takes to start a message. The algorithms
  /// are compared with this number. 32 KiB are about 10 microseconds at 25 Gbit/s.
  std::size_t start_bytes = 32 << 10;
  /// The largest block of a broadcast in blocks. It must be greater than 0.
  std::size_t broadcast_block_bytes = 1 << 20;
  /// The largest block of a reduction and of a ring. It must be greater than 0. If a block of a reduction
  /// would be smaller than an element, the block is one element.
  std::size_t block_bytes = 256 << 10;
  /// Parts of at most this length are gathered and scattered along a tree, longer parts directly.
  std::size_t tree_part_bytes = 4 << 10;
  /// Parts of at most this length are sent through other ranks in an all_to_all, longer parts directly.
  std::size_t forwarded_part_bytes = 256;
  /// The largest vector that ranks exchange as a whole in an all_reduce.
  std::size_t whole_vector_bytes = 1 << 20;
  /// The memory for the values of other ranks in a reduction with direct messages. If each rank's share of it
  /// is smaller than an element, the memory is two elements for each rank.
  std::size_t direct_reduction_bytes = 4 << 20;
};

}  // namespace rdmc::replica::collectives
