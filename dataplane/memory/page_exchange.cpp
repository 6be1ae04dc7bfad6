#include "dataplane/memory/page_exchange.hpp"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

namespace rdmc::memory {
namespace {

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

bool page_aligned(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kPageBytes == 0;
}

// Moves the pages at `from` to `to`. The range `from` stays mapped and becomes empty, so that other mappings
// cannot take its addresses.
bool move_pages(std::byte* from, std::byte* to, std::size_t bytes) {
  return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) != MAP_FAILED;
}

// Gives up the contents of `memory`: until a page is written again, the kernel may drop it. Returns true only
// for private anonymous memory. The result is needed as a check, because mremap (since Linux 5.13) also moves
// shared memory or a file mapping, and leaves private pages in its place.
bool discard(std::span<std::byte> memory) {
  return madvise(memory.data(), memory.size(), MADV_FREE) == 0;
}

}  // namespace

Result<PageExchange> PageExchange::make(std::size_t largest_bytes) {
  const std::size_t size = std::max(round_up_to_page(largest_bytes), kPageBytes);
  auto reserve = Arena::make(size);
  if (!reserve) return std::unexpected(reserve.error());
  // The reserve is an address range to which pages are moved during an exchange. Its own pages are not
  // needed.
  madvise(reserve->bytes().data(), reserve->bytes().size(), MADV_DONTNEED);
  PageExchange result(std::move(*reserve));

  auto a = Arena::make(size), b = Arena::make(size);
  if (!a) return std::unexpected(a.error());
  if (!b) return std::unexpected(b.error());
  std::int64_t exchange_ns = INT64_MAX, copy_ns = INT64_MAX;
  for (int i = 0; i < 5; ++i) {  // The best of five runs counts, because a disturbance can only add time.
    const auto start = monotonic_ns();
    discard(b->bytes());  // hand_off() does the same before each exchange.
    if (auto done = result.exchange(a->bytes(), b->bytes()); !done) {
      return fail(Errc::unsupported, "this kernel cannot exchange pages: " + done.error().what);
    }
    const auto middle = monotonic_ns();
    std::memcpy(a->bytes().data(), b->bytes().data(), size);
    exchange_ns = std::min(exchange_ns, middle - start);
    copy_ns = std::min(copy_ns, monotonic_ns() - middle);
  }
  const double bytes = static_cast<double>(exchange_ns) /
                       static_cast<double>(std::max<std::int64_t>(copy_ns, 1)) * static_cast<double>(size);
  result.break_even_bytes_ = round_up_to_page(static_cast<std::size_t>(std::min(bytes, 1e12)));
  return result;
}

Result<void> PageExchange::exchange(std::span<std::byte> a, std::span<std::byte> b) {
  const std::size_t bytes = a.size();
  if (bytes != b.size() || bytes == 0 || bytes % kPageBytes != 0 || bytes > reserve_.bytes().size() ||
      !page_aligned(a.data()) || !page_aligned(b.data()) ||
      (a.data() < b.data() + bytes && b.data() < a.data() + bytes)) {
    return fail(Errc::invalid_argument,
                "page exchange needs two separate, page-aligned ranges of one length");
  }
  std::byte* const parking = reserve_.bytes().data();
  if (!move_pages(a.data(), parking, bytes)) return fail_errno("mremap", errno);
  // The kernel may refuse this move to a process that is near its limit of mappings. In this case the bytes
  // are copied.
  const auto unpark = [&](std::span<std::byte> to) {
    if (!move_pages(parking, to.data(), bytes)) std::memcpy(to.data(), parking, bytes);
  };
  if (!move_pages(b.data(), a.data(), bytes)) {
    const int error = errno;
    unpark(a);
    return fail_errno("mremap", error);
  }
  unpark(b);
  return {};
}

std::size_t PageExchange::hand_off(std::span<std::byte> source, std::span<std::byte> destination) {
  assert(source.size() == destination.size());
  std::size_t exchanged = source.size() / kPageBytes * kPageBytes;
  if (exchanged < break_even_bytes_ || !discard(destination.first(exchanged)) ||
      !exchange(source.first(exchanged), destination.first(exchanged)))
    exchanged = 0;
  const std::size_t rest = source.size() - exchanged;
  if (rest != 0) std::memcpy(destination.data() + exchanged, source.data() + exchanged, rest);
  return rest;
}

}  // namespace rdmc::memory
