// A receiver's store for one epoch. Blocks arrive in a ring buffer. A thread writes each block to the file as
// it arrives, in any order. The thread also hashes the blocks in the file's order, while they are still in
// memory. After an omitted block nothing more is hashed in this epoch. A block is consumed when the block
// itself and all blocks of the epoch before it are written, hashed if possible, or omitted. So when the last
// missing block is consumed, the whole file is written and its digest is known. Store's functions run on the
// fabric thread. The caller owns the ring buffer's memory, which must outlive the store.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "apps/bcast-cli/file_shape.hpp"
#include "apps/bcast-cli/received_file.hpp"
#include "dataplane/base/error.hpp"
#include "lib/group/store.hpp"

namespace rdmc::bcast {

class FileSink final : public group::Store {
 public:
  /// Starts the writer for an epoch that sends the blocks of `map`. If a block is still missing, the blocks
  /// after it are hashed in a later epoch. `ring` must have space for at least one block. The writer calls
  /// `wake`, which must not throw, when poll_consumed() has new results. After a stop was requested through
  /// `unwanted`, nothing more is written or consumed. The disk of a straggler must not delay the members that
  /// send to it. So when blocks have arrived while the disk was busy, the straggler's writer writes at most
  /// as many of them as fill an eighth of the ring buffer. It treats the others as omitted. A file can have
  /// one sink at a time. Errors: protocol_error if `map` has no block, resource_limit if no thread can be
  /// started.
  static Result<std::unique_ptr<FileSink>> start(ReceivedFile& file, BlockMap map, std::span<std::byte> ring,
                                                 std::function<void()> wake, std::stop_token unwanted = {},
                                                 bool is_straggler = false);
  /// Ends the writer. The writer first writes the blocks that have arrived, unless they are unwanted, so that
  /// the next epoch need not send them again.
  ~FileSink() override;

  const VirtualBlocks& blocks() const { return blocks_; }
  /// Returns the number of bytes of the file that are written so far, including earlier epochs. Any thread
  /// may call this.
  std::uint64_t bytes_held() const { return bytes_held_.load(std::memory_order_relaxed); }

  std::span<std::byte> memory() override { return ring_; }
  std::uint64_t slots() const override { return slots_; }
  Result<std::uint64_t> available() override { return std::uint64_t{0}; }
  void arrived(std::uint64_t block, std::uint32_t bytes) override;
  void omitted(std::uint64_t block) override;
  Result<void> poll_consumed(std::vector<std::uint64_t>& blocks) override;
  void released(std::uint64_t) override {}

 private:
  struct Block {
    std::uint64_t index;
    bool is_omitted;
  };

  FileSink(ReceivedFile& file, BlockMap map, std::span<std::byte> ring, std::function<void()> wake,
           std::stop_token unwanted, bool is_straggler);
  void run();
  Result<void> write_all();
  Result<void> take(std::span<const Block> arrived);
  void queue(Block block);
  std::span<const std::byte> slot_of(std::uint64_t index) const;
  void publish(std::uint64_t consumed_before);
  void tell();

  ReceivedFile& file_;
  VirtualBlocks blocks_;
  std::uint64_t slots_;
  std::span<std::byte> ring_;
  std::function<void()> wake_;
  std::stop_token unwanted_;
  bool is_straggler_;

  // Used by the writer. An element is true if the block of its slot is written or omitted, and not hashed
  // yet.
  std::vector<bool> written_;
  // Used by the writer. An element is true if the block with this index is omitted.
  std::vector<bool> omitted_;
  std::uint64_t next_to_hash_ = 0;  // used by the writer
  // Used by the fabric thread: the number of consumed blocks. Blocks below this number plus slots_ may
  // arrive.
  std::uint64_t consumed_limit_ = 0;
  std::atomic<std::uint64_t> bytes_held_;
  std::atomic<bool> news_ = false;  // True if consumed_ or error_ has something new for the fabric thread.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Block> arrived_;           // protected by mutex_
  std::vector<std::uint64_t> consumed_;  // protected by mutex_
  std::optional<Error> error_;           // protected by mutex_
  bool ending_ = false;                  // protected by mutex_
  std::thread writer_;                   // the last member, because it uses all others
};

}  // namespace rdmc::bcast
