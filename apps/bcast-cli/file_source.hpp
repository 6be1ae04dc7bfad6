// The file at a source, which is the sender or a survivor. A thread reads the blocks of an epoch in order
// into a ring buffer. The thread reads ahead of the fabric thread, at most by the length of the ring buffer.
// SourceFile is the file itself and outlives the epochs. FileSource is the store of one epoch. Store's
// functions run on the fabric thread. The caller owns the ring buffer's memory, which must outlive the store.
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
  /// Opens a regular file for reading. If `block_size` is empty, the default for the file's size is used.
  /// Errors: invalid_argument if the path is a directory, a device or the like, and those of open(2). The
  /// errors' texts contain the path.
  static Result<SourceFile> open(const std::string& path, std::optional<std::uint32_t> block_size = {});

  /// Opens an incomplete copy as a source. The blocks that the copy has can be sent, and no digest is
  /// computed. Errors: resource_limit.
  static Result<SourceFile> of(const ReceivedFile& file);

  const std::string& path() const { return path_; }
  const FileShape& shape() const { return shape_; }
  /// Returns the space that the file takes on disk, at most its size. It is less than the size if the file
  /// has holes.
  std::uint64_t allocated_bytes() const;
  /// Returns the permissions that the file had when it was opened, at most 0777.
  std::uint32_t permissions() const { return status_.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO); }
  /// Returns the digest of the file. It is set when a FileSource has read the last block. Must not be called
  /// while a FileSource reads. Use FileSource::digest() then.
  std::optional<Digest> digest() const;

 private:
  friend class FileSource;
  SourceFile(std::string path, Descriptor file, const struct stat& status, FileShape shape, bool hashed);
  /// Checks that the file is unchanged. Errors: io_error if the size or the modification time has changed
  /// since the file was opened.
  Result<void> check_unchanged() const;

  std::string path_;
  Descriptor file_;
  struct stat status_;
  FileShape shape_;
  std::optional<FileDigest> hash_;  // set only for the sender's file
};

struct FileSourceOptions {
  std::optional<std::uint64_t> limit_rate;  ///< in bits per second
  /// Called by the reader when available() has changed. It must not throw.
  std::function<void()> wake;
  /// Called by the reader with the file's digest. The last block is not available until announced() is
  /// called.
  std::function<void(const Digest&)> announce;
};

class FileSource final : public group::Store {
 public:
  /// Starts to read the blocks of `map` into `ring`, which must have space for at least one block. A file can
  /// have one FileSource at a time. Errors: resource_limit if no thread can be started.
  static Result<std::unique_ptr<FileSource>> start(SourceFile& file, BlockMap map, std::span<std::byte> ring,
                                                   FileSourceOptions options);
  /// Ends the reader. A read that is running is finished first.
  ~FileSource() override;

  /// Makes the last block available. May be called from any thread.
  void announced();

  const VirtualBlocks& blocks() const { return blocks_; }
  /// Returns the file's digest, when all blocks are available. May be called from any thread.
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
  /// Waits until the slot of block `index` is free. Returns false if the store ends.
  bool wait_for_slot(std::uint64_t index);
  /// Waits until the rate limit allows `bytes` bytes in total since `start`. Returns false if the store ends.
  bool wait_for_rate(std::chrono::steady_clock::time_point start, std::uint64_t bytes);

  SourceFile& file_;
  VirtualBlocks blocks_;
  std::uint64_t slots_;
  std::span<std::byte> ring_;
  FileSourceOptions options_;

  std::atomic<std::uint64_t> available_ = 0;
  std::atomic<bool> failed_ = false;  // error_ is set before and does not change afterwards
  Error error_{};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t released_ = 0;  // protected by mutex_
  bool ending_ = false;         // protected by mutex_
  bool announced_ = false;      // protected by mutex_
  std::thread reader_;          // the last member, because it uses all others
};

/// Returns the size of a ring buffer for a file of this shape, when the data passes through `address`. A
/// small file fits completely. For a larger file the size is 32 MB, so that a disk can stall for a while.
/// Within one machine the size is 8 MB, because the caches matter more there. The size is at least 16 blocks,
/// because the pipeline of the largest group needs them.
std::size_t ring_bytes(FileShape shape, const Address& address);

}  // namespace rdmc::bcast
