// XXH3-128 of a whole file, in the file's order, fed with blocks while they are in memory anyway. What was
// sent in an earlier epoch, and what this epoch does not send, is read again from the file when its turn
// comes. Used by one thread at a time.
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

/// The canonical (big-endian) form, as xxh128sum prints it.
using Digest = std::array<std::byte, 16>;
std::string to_hex(const Digest& digest);

class FileDigest {
 public:
  explicit FileDigest(FileShape shape);

  bool is_complete() const { return next_ == shape_.blocks(); }

  /// Hashes `block` from memory, after all unhashed blocks before it from `fd`; does nothing when it is
  /// hashed already. Errors: of reading; io_error when the file ends too early.
  Result<void> add(std::uint64_t block, std::span<const std::byte> bytes, int fd, std::string_view name);
  /// Hashes all blocks below `block` from `fd`. Errors: as add().
  Result<void> catch_up(std::uint64_t block, int fd, std::string_view name);

  /// Of the whole file; it is_complete().
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
