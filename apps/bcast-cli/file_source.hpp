// A source's side of a file, the sender's or a survivor's: a thread reads the blocks of an epoch in order
// into a ring, ahead of the engine and never further than the ring is long. SourceFile is the file itself and
// outlives the epochs; FileSource is one epoch's store. Store's functions are the engine thread's; the ring's
// memory is the caller's and outlives the store.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "apps/bcast-cli/file_digest.hpp"
#include "apps/bcast-cli/file_io.hpp"
#include "apps/bcast-cli/file_shape.hpp"
#include "apps/bcast-cli/received_file.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "lib/group/store.hpp"

namespace rdmc::bcast {

class SourceFile {
 public:
  /// A regular file that can be read; without a block size it gets the default for its size. Errors:
  /// invalid_argument (a directory, a device, …), as open(2); all name it.
  static Result<SourceFile> open(const std::string& path, std::optional<std::uint32_t> block_size = {});

  /// A copy that is incomplete: what it holds can be sent, its digest does not matter. Errors:
  /// resource_limit.
  static Result<SourceFile> of(const ReceivedFile& file);

  const std::string& path() const { return path_; }
  const FileShape& shape() const { return shape_; }
  /// What it takes on disk, at most its size: less when it has holes.
  std::uint64_t allocated_bytes() const;
  /// As it was opened: 0777 at most.
  std::uint32_t permissions() const { return status_.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO); }
  /// There once a FileSource has read its last block. Not while one is reading: ask that.
  std::optional<Digest> digest() const;

 private:
  friend class FileSource;
  SourceFile(std::string path, FileDescriptor file, const struct stat& status, FileShape shape, bool hashed);
  /// Errors: io_error, if size or modification time are no longer what they were when the file was opened.
  Result<void> check_unchanged() const;

  std::string path_;
  FileDescriptor file_;
  struct stat status_;
  FileShape shape_;
  std::optional<FileDigest> hash_;  // of the sender's file
};

struct FileSourceOptions {
  std::optional<std::uint64_t> limit_rate;  ///< bits per second
  std::function<void()> wake;  ///< called by the reader when available() has changed; must not throw
  /// Called by the reader with the file's digest; the last block is kept back until announced().
  std::function<void(const Digest&)> announce;
};

class FileSource final : public group::Store {
 public:
  /// Starts to read the blocks of `map` into `ring`, which has room for one block at least. One at a time for
  /// a file. Errors: resource_limit (no thread).
  static Result<std::unique_ptr<FileSource>> start(SourceFile& file, BlockMap map, std::span<std::byte> ring,
                                                   FileSourceOptions options);
  /// Ends the reader, after the read under way.
  ~FileSource() override;

  /// Any thread.
  void announced();

  const VirtualBlocks& blocks() const { return blocks_; }
  /// The file's, once all blocks are available; any thread.
  std::optional<Digest> digest() const;

  std::span<std::byte> memory() override { return ring_; }
  std::uint64_t slots() const override { return slots_; }
  Result<std::uint64_t> available() override;
  void arrived(std::uint64_t, std::uint32_t) override {}
  Result<void> poll_consumed(std::vector<std::uint64_t>&) override { return {}; }
  void released(std::uint64_t limit) override;

 private:
  FileSource(SourceFile& file, BlockMap map, std::span<std::byte> ring, FileSourceOptions options);
  void read_all();
  Result<void> read_block(std::uint64_t index);
  /// Until the slot of block `index` is free; false when the store ends.
  bool wait_for_slot(std::uint64_t index);
  /// Until the rate allows `bytes` in all since `start`; false when the store ends.
  bool wait_for_rate(std::chrono::steady_clock::time_point start, std::uint64_t bytes);

  SourceFile& file_;
  VirtualBlocks blocks_;
  std::uint64_t slots_;
  std::span<std::byte> ring_;
  FileSourceOptions options_;

  std::atomic<std::uint64_t> available_ = 0;
  std::atomic<bool> failed_ = false;  // error_ is set before and does not change after
  Error error_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t released_ = 0;  // under mutex_
  bool ending_ = false;         // under mutex_
  bool announced_ = false;      // under mutex_
  std::thread reader_;          // last: it uses all of the above
};

/// How much memory a ring for files of this shape needs, when the data goes through `address`: the whole of a
/// small file; else 32 MB, which ride out a disk that stalls, or within one machine, whose caches count more,
/// 8 MB; but at least the 16 blocks that the pipeline of the largest group keeps busy.
std::size_t ring_bytes(FileShape shape, const Address& address);

}  // namespace rdmc::bcast
