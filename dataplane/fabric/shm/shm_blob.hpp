// What two ends of a shm queue pair tell each other before they connect, as a value and as the opaque bytes
// that the control plane carries. Whoever has the blob of a queue pair may connect to it: its token is its
// secret.
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

/// Of unguessable numbers.
Token fresh_token(const std::function<std::uint32_t()>& entropy);

struct ShmBlob {
  Token listener{};           ///< names the fabric's socket
  Token queue_pair{};         ///< names the queue pair, and proves to it that one has this blob
  std::uint64_t host_id = 0;  ///< host_identity()
  std::uint32_t user = 0;     ///< effective user id

  friend bool operator==(const ShmBlob&, const ShmBlob&) = default;
};

ConnectionBlob encode(const ShmBlob& blob);
/// Errors: protocol_error (not such a blob), version_mismatch (naming both versions).
Result<ShmBlob> decode_shm_blob(std::span<const std::byte> bytes);

}  // namespace rdmc::fabric::shm
