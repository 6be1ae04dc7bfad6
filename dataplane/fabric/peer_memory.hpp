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
  /// be read, or the process has ended, and nothing may be believed of `to`. Any thread. A page that is not
  /// present is waited for, and it may never come: its owner may have stopped whatever provides it.
  virtual std::size_t read(std::uint64_t address, std::span<std::byte> to) const = 0;
  /// Whether all pages of these bytes are present, so that read() does not wait. The answer is as old as the
  /// call: the peer may take a page away right after it. False where the kernel does not say. Any thread.
  virtual bool is_present(std::uint64_t address, std::size_t bytes) const = 0;
};

}  // namespace rdmc::fabric
