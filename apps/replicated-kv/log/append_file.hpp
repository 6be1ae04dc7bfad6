// A file that grows at its end, without making its thread wait for the disk. One write is on its way at a
// time; what comes meanwhile goes together with the next one (group commit). Works with io_uring, and with a
// thread of its own where the kernel does not permit that. One thread uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::kv {

class AppendFile {
 public:
  /// Errors: resource_limit, and those of eventfd.
  static Result<std::unique_ptr<AppendFile>> make(bool without_uring = false);
  virtual ~AppendFile() = default;

  /// Is readable when finished() has something.
  virtual int descriptor() const = 0;
  /// Writes the bytes at the offset, and then makes the file durable if `syncs`. There must be something to
  /// do. No write must be on its way. The bytes must stay where they are, and the file must stay open, until
  /// the write has finished.
  virtual void begin(int file, std::uint64_t offset, std::span<const std::byte> bytes, bool syncs) = 0;
  /// Writes the bytes at the offset before it returns. This gives them to the kernel, and usually does not
  /// wait for the disk. It does not concern what is on its way.
  static Result<void> write_now(int file, std::uint64_t offset, std::span<const std::byte> bytes);
  /// Returns the result of the write that has finished. An error says what the disk refused.
  virtual std::optional<Result<void>> finished() = 0;
  /// True if the last error was that of a synchronization. The kernel may have dropped what it had got for
  /// the file, and a later synchronization may still succeed. So the file must not be trusted any more.
  bool has_sync_failed() const { return has_sync_failed_; }
  /// Makes the file durable before it returns. No write must be on its way.
  Result<void> sync_now(int file);
  /// Waits until finished() may have something.
  void wait() const;
  /// Waits until nothing is on its way.
  void drain();
  bool is_busy() const { return is_busy_; }

 protected:
  bool is_busy_ = false, has_sync_failed_ = false;
};

}  // namespace rdmc::kv
