// A set of blocks: which ones of a message or a file somebody holds, or which ones are sent to those who lack
// them. Held blocks are a prefix and the holes of a window, so ranges stay few however large the file is.
// Plain values; no thread rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::relay {

/// Blocks [begin, end), begin < end.
struct BlockRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

/// A set of blocks out of [0, blocks()), as ascending ranges that do not touch each other.
class BlockMap {
 public:
  /// The most that an encoded map may hold; superset() brings a map below it.
  static constexpr std::size_t kMaxRanges = 16384;

  explicit BlockMap(std::uint64_t blocks = 0) : blocks_(blocks) {}
  static BlockMap full(std::uint64_t blocks);

  std::uint64_t blocks() const { return blocks_; }
  std::span<const BlockRange> ranges() const { return ranges_; }
  std::uint64_t count() const { return count_; }
  bool is_full() const { return count_ == blocks_; }
  bool contains(std::uint64_t block) const;

  /// The range must lie within [0, blocks()).
  void insert(BlockRange range);
  void insert(std::uint64_t block) { insert({block, block + 1}); }

  /// Lengthens the map by another: its block 0 comes behind our last.
  void append(const BlockMap& behind);

  BlockMap complement() const;
  /// Both over the same number of blocks.
  friend BlockMap operator|(const BlockMap& a, const BlockMap& b);
  friend BlockMap operator&(const BlockMap& a, const BlockMap& b);

  /// The map with its smallest gaps filled until no more than `max_ranges` (> 0) are left. To shrink what is
  /// held without claiming more than is, take the complement's superset and complement again.
  BlockMap superset(std::size_t max_ranges) const;

  /// Variable-length integers: number of blocks, number of ranges, then for each the gap before it and its
  /// length. At most kMaxRanges ranges.
  std::vector<std::byte> encode() const;
  /// Accepts exactly what encode() makes. Errors: protocol_error (malformed, another number of blocks than
  /// `blocks`).
  static Result<BlockMap> decode(std::span<const std::byte> bytes, std::uint64_t blocks);

  friend bool operator==(const BlockMap&, const BlockMap&) = default;

 private:
  void append(BlockRange range);  ///< behind all others, merging with the last

  std::uint64_t blocks_ = 0;
  std::uint64_t count_ = 0;
  std::vector<BlockRange> ranges_;
};

}  // namespace rdmc::relay
