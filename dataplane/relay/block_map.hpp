// A set of blocks of a message or a file, for example the blocks that a member holds, or the blocks that are
// sent to members that lack them. A member holds all blocks before a window that moves along the message, and
// some blocks of the window. So the number of ranges stays small, however large the file is. The types are
// plain values. A map must not be changed while another thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::relay {

/// The blocks [begin, end). Precondition: begin < end.
struct BlockRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

/// A set of blocks out of [0, blocks()), as ascending ranges that do not touch each other.
class BlockMap {
 public:
  /// The largest number of ranges in an encoded map. superset() reduces a map to this number.
  static constexpr std::size_t kMaxRanges = 16384;

  explicit BlockMap(std::uint64_t blocks = 0) : blocks_(blocks) {}
  static BlockMap full(std::uint64_t blocks);

  std::uint64_t blocks() const { return blocks_; }
  std::span<const BlockRange> ranges() const { return ranges_; }
  std::uint64_t count() const { return count_; }
  bool is_full() const { return count_ == blocks_; }
  bool contains(std::uint64_t block) const;

  /// Adds a range of blocks. The range must lie within [0, blocks()).
  void insert(BlockRange range);
  void insert(std::uint64_t block) { insert({block, block + 1}); }

  /// Appends the blocks of another map. Block 0 of `behind` follows the last block of this map.
  void append(const BlockMap& behind);

  BlockMap complement() const;
  /// The union and the intersection. Precondition: both maps have the same number of blocks.
  friend BlockMap operator|(const BlockMap& a, const BlockMap& b);
  friend BlockMap operator&(const BlockMap& a, const BlockMap& b);

  /// Returns this map with its smallest gaps filled, so that at most `max_ranges` ranges are left.
  /// Precondition: max_ranges > 0. To reduce a map of held blocks without adding blocks that are not held,
  /// take the superset of the complement, and take the complement of the result.
  BlockMap superset(std::size_t max_ranges) const;

  /// Encodes the map as variable-length integers: the number of blocks, the number of ranges, and for each
  /// range the gap before it and its length. Precondition: there are at most kMaxRanges ranges.
  std::vector<std::byte> encode() const;
  /// Accepts only what encode() makes. Errors: protocol_error if the bytes are malformed, or if their number
  /// of blocks is not `blocks`.
  static Result<BlockMap> decode(std::span<const std::byte> bytes, std::uint64_t blocks);

  friend bool operator==(const BlockMap&, const BlockMap&) = default;

 private:
  /// Adds a range after all others, and merges it with the last range if they touch.
  void append(BlockRange range);

  std::uint64_t blocks_ = 0;
  std::uint64_t count_ = 0;
  std::vector<BlockRange> ranges_;
};

}  // namespace rdmc::relay
