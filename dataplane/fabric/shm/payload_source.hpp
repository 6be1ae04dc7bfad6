// The interface by which bytes get from a sender's memory into a receiver's memory. The sender gives a
// payload locator that the receiver can read from, and the receiver copies the bytes. The cores (requester,
// responder) use only this interface. The fabric implements it with mapped arenas and with the kernel's copy
// between processes. Tests have implementations of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/fabric/shm/queue_memory.hpp"

namespace rdmc::fabric::shm {

/// A position from which the peer can read without the help of this process.
struct PayloadLocator {
  Source source{};
  std::uint32_t arena = 0;
  std::uint64_t where = 0;
};

class PayloadSource {
 public:
  virtual ~PayloadSource() = default;

  /// Returns where the peer finds `bytes`. Returns nullopt if the peer cannot read them. The caller must then
  /// stage them.
  virtual std::optional<PayloadLocator> offer(std::span<const std::byte> bytes) = 0;

  enum class Outcome : std::uint8_t {
    copied,
    gone,       ///< The peer or the memory is gone. The contents of `to` are undefined.
    malformed,  ///< There is no such arena, or the arena is too small.
  };
  /// Copies to.size() bytes from the peer's memory into `to`. The bytes begin `offset` bytes after the
  /// position of `locator`. `locator.source` must not be `staged`. `to` may be a part of a larger memory that
  /// is being filled; `extent` is the size of that memory.
  virtual Outcome pull(const PayloadLocator& locator, std::uint64_t offset, std::span<std::byte> to,
                       std::size_t extent) = 0;
};

}  // namespace rdmc::fabric::shm
