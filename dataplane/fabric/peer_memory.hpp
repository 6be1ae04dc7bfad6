// The memory of a peer's process, where the kernel lets us read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rdmc::fabric {

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// Copies what lies at `address` there, any address at all; how much, from the front. 0: none of it could
  /// be read, or the process has ended, and nothing may be believed of `to`. Any thread.
  virtual std::size_t read(std::uint64_t address, std::span<std::byte> to) const = 0;
};

}  // namespace rdmc::fabric
