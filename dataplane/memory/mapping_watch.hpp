// Tells when memory that somebody remembers by its address is no longer what it was: unmapped, moved,
// emptied, or mapped over. Whoever keeps memory registered with a device after its use needs this: the device
// holds on to the old pages, and what the application maps at the same address later are others. The kernel
// tells it (userfaultfd; nothing is ever write-protected or missing, so no access is slower), a thread
// listens, and whoever takes memory away goes on when it has been noted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::memory {

class MappingWatch {
 public:
  /// Errors: unsupported (this kernel does not tell, or not us), resource_limit (no thread).
  static Result<std::unique_ptr<MappingWatch>> open();
  ~MappingWatch();
  MappingWatch(const MappingWatch&) = delete;
  MappingWatch& operator=(const MappingWatch&) = delete;

  /// The whole pages around `memory`, which is anonymous, from now on. Errors: unsupported (other memory, or
  /// somebody else watches it).
  Result<void> watch(std::span<const std::byte> memory);
  /// No longer, wherever else they were watched as part of: whoever takes them away need not wait for this.
  void unwatch(std::span<const std::byte> memory);

  /// What has gone. More changes than there is room for are one: everything.
  struct Gone {
    static constexpr std::size_t kRoom = 64;
    std::array<std::span<const std::byte>, kRoom> ranges;
    std::size_t count = 0;
    bool everything = false;
    bool touches(std::span<const std::byte> memory) const;
  };
  /// What has gone since the last call. A change whose system call has returned, on whichever thread, is in
  /// it.
  Gone take();

 private:
  MappingWatch(Descriptor fault, Descriptor stop) : fault_(std::move(fault)), stop_(std::move(stop)) {}
  void listen();
  void note(std::uint64_t begin, std::uint64_t end);

  Descriptor fault_, stop_;
  /// Held over the reading of an event, which lets the one who caused it go on, and the noting of it. Nothing
  /// is allocated or given back under it: that might unmap watched memory, and wait for this thread.
  std::mutex mutex_;
  Gone gone_;
  bool dead_ = false;  // nobody listens any more
  struct Range {
    std::uint64_t begin, end;
    bool operator==(const Range&) const = default;
  };
  static Range pages_around(std::span<const std::byte> memory);
  void unregister(const Range& range);
  std::vector<Range> watched_;
  std::thread thread_;
};

}  // namespace rdmc::memory
