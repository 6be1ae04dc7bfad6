// How bytes get from a sender's memory into a receiver's: the sender's side names a place that the receiver
// can read, the receiver's side reads it. The cores (requester, responder) know only this; what is behind it
// - mapped arenas, the kernel's copy between processes - is the fabric's, and the tests' own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/fabric/shm/queue_memory.hpp"

namespace rdmc::fabric::shm {

/// A place that the peer can read without us.
struct PayloadLocator {
  Source source{};
  std::uint32_t arena = 0;
  std::uint64_t where = 0;
};

class PayloadSource {
 public:
  virtual ~PayloadSource() = default;

  /// Where the peer finds `bytes`; nothing: nowhere, they must be staged.
  virtual std::optional<PayloadLocator> offer(std::span<const std::byte> bytes) = 0;

  enum class Outcome : std::uint8_t {
    copied,
    gone,       ///< the peer, or the memory; nothing may be believed of `to`
    malformed,  ///< no such arena, or not so large
  };
  /// Copies what lies `offset` bytes behind the place that a peer named; never kStaged. `extent`: bytes of
  /// the memory that is being filled, of which `to` is a part.
  virtual Outcome pull(const PayloadLocator& locator, std::uint64_t offset, std::span<std::byte> to,
                       std::size_t extent) = 0;
};

}  // namespace rdmc::fabric::shm
