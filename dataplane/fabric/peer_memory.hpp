// The memory of a peer's process, if the kernel lets this process read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rdmc::fabric {

class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// Copies the bytes at any `address` of the peer's process. Returns how many bytes were copied, from the
  /// front. Returns 0 if none could be read or the process has ended; then the contents of `to` are
  /// undefined. Waits for a page that is not present, perhaps for ever, because the page's owner may have
  /// stopped whatever provides the page. Any thread.
  virtual std::size_t read(std::uint64_t address, std::span<std::byte> to) const = 0;
  /// True if all pages of these bytes are present, so that read() does not wait. The peer may remove a page
  /// right after the call. Returns false if the kernel does not report it. Any thread.
  virtual bool is_present(std::uint64_t address, std::size_t bytes) const = 0;
};

}  // namespace rdmc::fabric
