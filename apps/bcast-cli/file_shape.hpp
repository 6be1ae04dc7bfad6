// How a file is cut into blocks, and which blocks form the message of an epoch. After a failure the next
// epoch sends only blocks that some member lacks. These blocks get new numbers from 0 on (VirtualBlocks). All
// types are plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/relay/block_map.hpp"
#include "dataplane/relay/plan.hpp"

namespace rdmc::bcast {

using relay::BlockMap;
using relay::BlockRange;

constexpr std::uint32_t kMinBlockSize = 4096;
/// Sixteen blocks of this size fill the largest ring buffer, which is 32 MB.
constexpr std::uint32_t kMaxBlockSize = 2 << 20;

/// Returns the default block size: a 64th of the file, rounded down to a power of two, but at least 64K and
/// at most 512K. Larger blocks have less overhead, and smaller blocks fill the pipeline sooner.
std::uint32_t default_block_size(std::uint64_t file_size);

/// The shape of a file: all blocks have block_size bytes, except the last one, which may be shorter. An empty
/// file has one block of no bytes.
struct FileShape {
  std::uint64_t size = 0;
  std::uint32_t block_size = kMinBlockSize;

  /// Checks values that a peer has sent. Errors: protocol_error if the size is larger than 2^62, or if the
  /// block size is not a multiple of 4096 from kMinBlockSize to kMaxBlockSize.
  static Result<FileShape> make(std::uint64_t size, std::uint64_t block_size);

  std::uint64_t blocks() const { return relay::block_count(size, block_size); }
  std::uint64_t offset(std::uint64_t block) const { return block * block_size; }
  std::uint32_t bytes(std::uint64_t block) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(block_size, size - offset(block)));
  }
  friend bool operator==(const FileShape&, const FileShape&) = default;
};

/// The message of an epoch: the blocks of a map, numbered from 0 on. Only the last block can be shorter than
/// the block size.
class VirtualBlocks {
 public:
  VirtualBlocks(FileShape shape, BlockMap map);

  const FileShape& shape() const { return shape_; }
  const BlockMap& map() const { return map_; }
  std::uint64_t count() const { return map_.count(); }
  /// Returns the length of the message in bytes.
  std::uint64_t size() const;
  /// Returns the number that block `index` of the message has in the file. `index` must be less than count().
  /// The result grows with `index`.
  std::uint64_t real(std::uint64_t index) const;
  std::uint32_t bytes(std::uint64_t index) const { return shape_.bytes(real(index)); }

 private:
  FileShape shape_;
  BlockMap map_;
  std::vector<std::uint64_t> before_;  ///< for each range, the number of blocks before it
};

}  // namespace rdmc::bcast
