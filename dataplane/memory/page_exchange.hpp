// Moves received bytes into the application's memory by exchanging pages instead of copying (RDMC paper,
// section 3.2: the first block arrives before its size and place are known). Two ranges of whole pages change
// places: what was at `a` is at `b` and the other way round; no byte is touched.
//
// It gains only for large ranges: an exchange costs three mremap calls and their TLB shoot-downs, a copy
// costs time for each byte. So the break-even is measured once per PageExchange, in the process that will use
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::memory {

class PageExchange {
 public:
  /// Reserves address space for `largest_bytes` and measures the break-even. Errors: resource_limit;
  /// unsupported, if the kernel has no MREMAP_DONTUNMAP (before 5.7).
  static Result<PageExchange> make(std::size_t largest_bytes);

  /// The shortest exchange that beats a copy here, in bytes; a multiple of the page size.
  std::size_t break_even_bytes() const noexcept { return break_even_bytes_; }
  void set_break_even_bytes(std::size_t bytes) noexcept { break_even_bytes_ = bytes; }

  /// Exchanges the pages of two equally long ranges of private anonymous memory. Neither range is ever
  /// unmapped in between, so another thread's mmap can't take its place; the caller sees to it that nobody
  /// reads or writes them meanwhile and that neither is registered with a device. Errors: invalid_argument
  /// (alignment, length, overlap), io_error if the kernel refuses (a range of several mappings, a file
  /// mapping): then nothing has changed.
  Result<void> exchange(std::span<std::byte> a, std::span<std::byte> b);

  /// Any memory may be a destination; what is not private and anonymous is copied into.
  /// Makes `destination` hold `source`'s bytes: whole pages by exchange where that is possible and gains, the
  /// rest by copy. `source` holds unspecified bytes afterwards. Returns the number of bytes copied.
  std::size_t hand_off(std::span<std::byte> source, std::span<std::byte> destination);

 private:
  explicit PageExchange(Arena reserve) : reserve_(std::move(reserve)) {}
  Arena reserve_;
  std::size_t break_even_bytes_ = SIZE_MAX;
};

}  // namespace rdmc::memory
