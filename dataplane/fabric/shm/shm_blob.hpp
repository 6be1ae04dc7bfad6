// The values that two ends of a shm queue pair exchange before they connect, as a struct and as the bytes
// that the control plane carries. A process that has a queue pair's blob may connect to that queue pair, so
// the token in the blob must be kept secret.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::fabric::shm {

using Token = std::array<std::byte, 16>;

/// Makes a token of unguessable numbers.
Token fresh_token(const std::function<std::uint32_t()>& entropy);

struct ShmBlob {
  Token listener{};  ///< The name of the fabric's socket.
  /// Identifies the queue pair. A process that sends this token to the queue pair proves that it has this
  /// blob.
  Token queue_pair{};
  std::uint64_t host_id = 0;  ///< See host_identity().
  std::uint32_t user = 0;     ///< The effective user id of the process.

  friend bool operator==(const ShmBlob&, const ShmBlob&) = default;
};

ConnectionBlob encode(const ShmBlob& blob);
/// Decodes a blob. Errors: protocol_error if the bytes are not such a blob, version_mismatch (the text names
/// both versions).
Result<ShmBlob> decode_shm_blob(std::span<const std::byte> bytes);

}  // namespace rdmc::fabric::shm
