// Reports when remembered memory addresses are no longer valid, because the memory was unmapped, moved,
// emptied or mapped over. Such reports are needed to keep memory registered with a device after its use. The
// device keeps the old pages, and memory that the application maps later at the same address has other pages.
// The kernel reports the changes through a userfaultfd. No page is ever write-protected or missing, so no
// access becomes slower. A thread of this object reads the reports. A thread that changes a mapping continues
// only when this object has noted the change.
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
  /// Errors: unsupported if this kernel does not report such changes or does not let this process watch
  /// them, resource_limit if no thread could be started.
  static Result<std::unique_ptr<MappingWatch>> open();
  ~MappingWatch();
  MappingWatch(const MappingWatch&) = delete;
  MappingWatch& operator=(const MappingWatch&) = delete;

  /// Watches the whole pages around `memory` from now on. The memory must be anonymous. Errors: unsupported
  /// for other memory, or if another userfaultfd watches it.
  Result<void> watch(std::span<const std::byte> memory);
  /// Ends the watch of a range that was given to watch(). Its pages are then no longer watched, even if
  /// another watched range contains them. A thread that unmaps them does not wait for this object.
  void unwatch(std::span<const std::byte> memory);

  /// The ranges that have changed. If there are more than kRoom of them, `everything` is set.
  struct Gone {
    static constexpr std::size_t kRoom = 64;
    std::array<std::span<const std::byte>, kRoom> ranges;
    std::size_t count = 0;
    bool everything = false;
    bool touches(std::span<const std::byte> memory) const;
  };
  /// Returns the changes since the last call. They include every change whose system call has returned, on
  /// any thread.
  Gone take();

 private:
  MappingWatch(Descriptor fault, Descriptor stop) : fault_(std::move(fault)), stop_(std::move(stop)) {}
  void listen();
  void note(std::uint64_t begin, std::uint64_t end);

  Descriptor fault_, stop_;
  /// Held while an event is read and noted. When an event is read, the thread that caused it continues. A
  /// thread that holds this mutex must not allocate or free memory: this could unmap watched memory and then
  /// wait for the listening thread.
  std::mutex mutex_;
  Gone gone_;
  bool dead_ = false;  // the listening thread has ended
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
