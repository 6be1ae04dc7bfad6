// The XXH3-128 hash of a whole file, in the order of the file. Blocks are hashed while they are in memory.
// Blocks of earlier epochs, and blocks that this epoch does not send, are read again from the file when they
// are due. Only one thread at a time may use it.
#pragma once

#include <xxhash.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "apps/bcast-cli/file_shape.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

/// A digest in the canonical (big-endian) form, as xxh128sum prints it.
using Digest = std::array<std::byte, 16>;
std::string to_hex(const Digest& digest);

class FileDigest {
 public:
  explicit FileDigest(FileShape shape);

  bool is_complete() const { return next_ == shape_.blocks(); }

  /// Hashes `block` from memory. Before that, reads all unhashed blocks below `block` from `fd` and hashes
  /// them. Does nothing if `block` is already hashed. Errors: those of reading, and io_error if the file ends
  /// too early.
  Result<void> add(std::uint64_t block, std::span<const std::byte> bytes, int fd, std::string_view name);
  /// Reads all unhashed blocks below `block` from `fd` and hashes them. Errors: those of add().
  Result<void> catch_up(std::uint64_t block, int fd, std::string_view name);

  /// Returns the digest of the whole file. Precondition: is_complete().
  Digest value() const;

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  FileShape shape_;
  std::uint64_t next_ = 0;
  std::unique_ptr<XXH3_state_t, FreeState> state_;
};

}  // namespace rdmc::bcast
