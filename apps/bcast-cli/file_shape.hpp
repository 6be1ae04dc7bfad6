// How a file is cut into blocks, and the message of an epoch: after a failure the successor epoch sends only
// what somebody lacks, the row of those blocks numbered anew from 0 (VirtualBlocks). Plain values; no thread
// rules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dataplane/base/error.hpp"
#include "dataplane/relay/block_map.hpp"

namespace rdmc::bcast {

using relay::BlockMap;
using relay::BlockRange;

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
