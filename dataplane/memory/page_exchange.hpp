// Moves received bytes into the application's memory by an exchange of pages in place of a copy (RDMC,
// section 3.2: the first block arrives before its size and its destination are known). Two ranges of whole
// pages are swapped: afterwards the bytes of `a` are at `b`, and the bytes of `b` at `a`. No byte is
// touched.
//
// An exchange is faster only for large ranges. It costs a few system calls and their TLB shoot-downs, while a
// copy costs time for each byte. The kernel moves the entries of page tables one by one, or a whole table at
// once if a range covers all its addresses. Then an exchange costs least. From which size on an exchange is
// faster (the break-even) depends on the machine, so a process measures it once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/memory/aligned_mapping.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::memory {

class PageExchange {
 public:
  /// The least sizes in bytes for which an exchange is faster than a copy. SIZE_MAX if no exchange is faster.
  struct BreakEven {
    std::size_t of_pages = SIZE_MAX;   ///< if both ranges begin at a page
    std::size_t of_tables = SIZE_MAX;  ///< if both ranges begin at a multiple of kHugePageBytes
  };
  explicit PageExchange(BreakEven break_even) : break_even_(break_even) {}

  /// Returns the exchange with the break-even of this process. The first call measures it, which takes some
  /// milliseconds, and up to 100 ms in a virtual machine with slow page faults. If the kernel cannot exchange
  /// pages (before Linux 5.7), everything is copied. Any thread may call this.
  static const PageExchange& of_process();
  const BreakEven& break_even() const noexcept { return break_even_; }

  /// Exchanges the pages of two equally long ranges of private anonymous memory. Both ranges stay mapped all
  /// the time, so another thread's mmap cannot take their addresses. During the call no thread may read or
  /// write the ranges, and neither range may be registered with a device; the caller must ensure both.
  /// Errors: invalid_argument (alignment, length, overlap), io_error if the kernel refuses (a range of
  /// several mappings, or a file mapping), resource_limit. After an error nothing has changed.
  static Result<void> exchange(std::span<std::byte> a, std::span<std::byte> b);

  /// Copies the bytes of `source` to `destination`, which are equally long. The largest part that consists of
  /// whole pages in both ranges is exchanged if this is possible and faster, and the rest is copied. `source`
  /// holds unspecified bytes afterwards. Any memory may be a destination; if it is not private and anonymous,
  /// all bytes are copied. Returns the number of bytes copied.
  std::size_t hand_off(std::span<std::byte> source, std::span<std::byte> destination) const;
  /// True if hand_off() would try to exchange pages of these ranges.
  bool gains(std::span<const std::byte> source, std::span<const std::byte> destination) const {
    return exchanged_part(source, destination).bytes != 0;
  }

 private:
  /// A part of two ranges that lies at the same offset in both.
  struct Part {
    std::size_t offset = 0, bytes = 0;
  };
  static Part whole_units(std::span<const std::byte> a, std::span<const std::byte> b, std::size_t unit);
  Part exchanged_part(std::span<const std::byte> source, std::span<const std::byte> destination) const;

  BreakEven break_even_;
};

}  // namespace rdmc::memory
