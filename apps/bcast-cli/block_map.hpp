// Which blocks of a file a receiver holds, or which ones an epoch sends. After a failure the successor epoch
// sends only what somebody lacks: its message is the row of those blocks, numbered anew from 0
// (VirtualBlocks). Held blocks are a prefix and the holes of a window, so ranges stay few however large the
// file is. Plain values; no thread rules.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

constexpr std::uint32_t kMinBlockSize = 4096;
constexpr std::uint32_t kMaxBlockSize = 2 << 20;  ///< sixteen are 32 MB, the largest window

/// Large enough that blocks cost little each, small enough that the pipeline fills soon: the file's 64th part
/// as a power of two, from 64K to 1M.
std::uint32_t default_block_size(std::uint64_t file_size);

/// How a file is cut: all blocks have block_size bytes but the last. An empty file is one block of no bytes.
struct FileShape {
  std::uint64_t size = 0;
  std::uint32_t block_size = kMinBlockSize;

  /// For what a peer says. Errors: protocol_error (a size past 2^62, a block size that is no multiple of 4096
  /// from kMinBlockSize to kMaxBlockSize).
  static Result<FileShape> make(std::uint64_t size, std::uint64_t block_size);

  std::uint64_t blocks() const { return size == 0 ? 1 : (size - 1) / block_size + 1; }
  std::uint64_t offset(std::uint64_t block) const { return block * block_size; }
  std::uint32_t bytes(std::uint64_t block) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(block_size, size - offset(block)));
  }
  friend bool operator==(const FileShape&, const FileShape&) = default;
};

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

/// The blocks of a map in a row: the message of an epoch. Only its last block can be shorter than the block
/// size.
class VirtualBlocks {
 public:
  VirtualBlocks(FileShape shape, BlockMap map);

  const FileShape& shape() const { return shape_; }
  const BlockMap& map() const { return map_; }
  std::uint64_t count() const { return map_.count(); }
  /// The length of the message in bytes.
  std::uint64_t size() const;
  /// The file's block that is the message's block `index` < count(); ascending with `index`.
  std::uint64_t real(std::uint64_t index) const;
  std::uint32_t bytes(std::uint64_t index) const { return shape_.bytes(real(index)); }

 private:
  FileShape shape_;
  BlockMap map_;
  std::vector<std::uint64_t> before_;  ///< for each range, how many blocks stand before it
};

}  // namespace rdmc::bcast
