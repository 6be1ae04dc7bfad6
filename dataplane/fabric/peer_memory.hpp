// Reads the memory of a peer's process, if the kernel permits it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rdmc::fabric {

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// Copies to.size() bytes from `address` in the peer's process. Returns how many bytes were copied, counted
  /// from the front. Returns 0 if no byte could be read, or if the process has ended. In that case, the
  /// contents of `to` are undefined. If a page is not present, the call waits for the page. This may last for
  /// ever, because the peer may have stopped the program that provides the page. May be called on any thread.
  virtual std::size_t read(std::uint64_t address, std::span<std::byte> to) const = 0;
  /// Returns true if all pages of these bytes are present, so that read() does not wait. The peer may remove
  /// a page right after the call. Returns false if the kernel does not report which pages are present. May be
  /// called on any thread.
  virtual bool is_present(std::uint64_t address, std::size_t bytes) const = 0;
};

}  // namespace rdmc::fabric
