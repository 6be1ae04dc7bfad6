// A receiver's store for one epoch: blocks land in a ring, a thread writes each to the file as it comes, in
// any order, and hashes them in the file's order while they are still in memory. Behind one that is omitted
// nothing is hashed in this epoch. A block is consumed when both are done, so that the last one that was
// missing is consumed only when the whole file is on its way to the disk and its digest is known. Store's
// functions are the engine thread's; the ring's memory is the caller's and outlives the store.
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
  /// Starts the writer for an epoch that sends the blocks of `map`. What is behind a block that is still
  /// missing afterwards is hashed in a later epoch. `ring` has room for one block at least. `wake` is called
  /// by the writer when poll_consumed() has news; it must not throw. Once `unwanted` is requested nothing
  /// further is written or consumed. A straggler's disk must not hold up those who send to it: of the blocks
  /// that have come meanwhile at most an eighth of the ring is written, and the others are taken for omitted.
  /// One sink at a time for a file. Errors:
  /// protocol_error (no block at all), resource_limit (no thread).
  static Result<std::unique_ptr<FileSink>> start(ReceivedFile& file, BlockMap map, std::span<std::byte> ring,
                                                 std::function<void()> wake, std::stop_token unwanted = {},
                                                 bool is_straggler = false);
  /// Writes what has arrived, so that no successor epoch must send it again, unless it is unwanted, and ends
  /// the writer.
  ~FileSink() override;

  const VirtualBlocks& blocks() const { return blocks_; }
  /// Bytes of the file that are in it now, those of earlier epochs too. Any thread.
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

  std::vector<bool> written_;  // writer: by slot; a block from next_to_hash_ on that is written or omitted
  std::vector<bool> omitted_;  // writer: by slot; that block is omitted
  std::uint64_t next_to_hash_ = 0;  // writer
  std::uint64_t consumed_limit_ =
      0;  // engine: blocks below were consumed, so that those before limit + slots may land
  std::atomic<std::uint64_t> bytes_held_;
  std::atomic<bool> news_ = false;  // consumed_ or error_ has something for the engine
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Block> arrived_;           // under mutex_
  std::vector<std::uint64_t> consumed_;  // under mutex_
  std::optional<Error> error_;           // under mutex_
  bool ending_ = false;                  // under mutex_
  std::thread writer_;                   // last: it uses all of the above
};

}  // namespace rdmc::bcast
