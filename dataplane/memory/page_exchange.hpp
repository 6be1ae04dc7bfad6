// Moves received bytes into the application's memory by an exchange of pages in place of a copy (RDMC,
// section 3.2: the first block arrives before its size and its destination are known). Two ranges of whole
// pages are swapped: afterwards the bytes of `a` are at `b`, and the bytes of `b` at `a`. No byte is
// touched.
//
// An exchange is faster only for large ranges. It costs three mremap calls and their TLB shoot-downs, while
// a copy costs time for each byte. So each PageExchange measures once, in the process that uses it, from
// which size on an exchange is faster (the break-even).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::memory {

class PageExchange {
 public:
  /// Reserves address space for `largest_bytes` and measures the break-even. Errors: resource_limit,
  /// unsupported if the kernel has no MREMAP_DONTUNMAP (before 5.7).
  static Result<PageExchange> make(std::size_t largest_bytes);

  /// The size in bytes from which on an exchange is faster than a copy in this process. It is a multiple of
  /// the page size.
  std::size_t break_even_bytes() const noexcept { return break_even_bytes_; }
  void set_break_even_bytes(std::size_t bytes) noexcept { break_even_bytes_ = bytes; }

  /// Exchanges the pages of two equally long ranges of private anonymous memory. Both ranges stay mapped all
  /// the time, so another thread's mmap cannot take their addresses. During the call no thread may read or
  /// write the ranges, and neither range may be registered with a device; the caller must ensure both.
  /// Errors: invalid_argument (alignment, length, overlap), io_error if the kernel refuses (a range of
  /// several mappings, or a file mapping). After an error nothing has changed.
  Result<void> exchange(std::span<std::byte> a, std::span<std::byte> b);

  /// Copies the bytes of `source` to `destination`. Whole pages are exchanged if this is possible and
  /// faster, and the rest is copied. `source` holds unspecified bytes afterwards. Any memory may be a
  /// destination; if it is not private and anonymous, all bytes are copied. Returns the number of bytes
  /// copied.
  std::size_t hand_off(std::span<std::byte> source, std::span<std::byte> destination);

 private:
  explicit PageExchange(Arena reserve) : reserve_(std::move(reserve)) {}
  Arena reserve_;
  std::size_t break_even_bytes_ = SIZE_MAX;
};

}  // namespace rdmc::memory
