#include "dataplane/memory/page_exchange.hpp"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "dataplane/memory/aligned_mapping.hpp"

namespace rdmc::memory {
namespace {

std::int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

std::uintptr_t address_of(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

/// Moves the pages at `from` to `to`. With MREMAP_DONTUNMAP in `flags`, the range `from` stays mapped and
/// becomes empty, so that other mappings cannot take its addresses.
bool move_pages(std::byte* from, std::byte* to, std::size_t bytes, int flags = 0) {
  return mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | flags, to) != MAP_FAILED;
}

/// Gives up the contents of `memory`: until a page is written again, the kernel may drop it. Returns true
/// only for private anonymous memory. The result is needed as a check, because mremap (since Linux 5.13) also
/// moves shared memory or a file mapping, and leaves private pages in its place.
bool discard(std::span<std::byte> memory) {
  return madvise(memory.data(), memory.size(), MADV_FREE) == 0;
}

/// Reads a word of each cache line. A copy leaves its bytes in the cache, and an exchange leaves a TLB
/// without entries, so both are compared together with the reading that follows.
void read(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += 64)
    (void)*static_cast<const volatile std::byte*>(&bytes[at]);
}

/// Returns the least of the sizes `least`, 2 * `least`, ..., `most` for which an exchange of pages is faster
/// than a copy, or SIZE_MAX if there is none. Both ranges begin `skipped` bytes after the begin of an arena.
std::size_t measure(std::size_t least, std::size_t most, std::size_t skipped) {
  const auto a = Arena::make(most + skipped), b = Arena::make(most + skipped);
  if (!a || !b) return SIZE_MAX;
  for (std::size_t bytes = least; bytes <= most; bytes *= 2) {
    const auto source = a->bytes().subspan(skipped, bytes), destination = b->bytes().subspan(skipped, bytes);
    std::int64_t exchange_ns = INT64_MAX, copy_ns = INT64_MAX;
    for (int i = 0; i < 4; ++i) {  // The best run counts, because a disturbance can only add time.
      std::memset(source.data(), i, bytes);
      const auto start = monotonic_ns();
      if (!discard(destination) || !PageExchange::exchange(source, destination)) return SIZE_MAX;
      read(destination);
      const auto middle = monotonic_ns();
      std::memset(source.data(), i, bytes);
      const auto again = monotonic_ns();
      std::memcpy(destination.data(), source.data(), bytes);
      read(destination);
      exchange_ns = std::min(exchange_ns, middle - start);
      copy_ns = std::min(copy_ns, monotonic_ns() - again);
    }
    if (exchange_ns < copy_ns) return bytes;
  }
  return SIZE_MAX;
}

}  // namespace

const PageExchange& PageExchange::of_process() {
  static const PageExchange exchange({
      .of_pages = measure(16 * kPageBytes, kHugePageBytes, kPageBytes),
      .of_tables = measure(kHugePageBytes, 16 * kHugePageBytes, 0),
  });
  return exchange;
}

Result<void> PageExchange::exchange(std::span<std::byte> a, std::span<std::byte> b) {
  const std::size_t bytes = a.size();
  if (bytes != b.size() || bytes == 0 || bytes % kPageBytes != 0 || address_of(a.data()) % kPageBytes != 0 ||
      address_of(b.data()) % kPageBytes != 0 || (a.data() < b.data() + bytes && b.data() < a.data() + bytes))
    return fail(Errc::invalid_argument,
                "page exchange needs two separate, page-aligned ranges of one length");
  // The pages of `a` are kept here meanwhile.
  void* const mapped = map_aligned(bytes, PROT_NONE, address_of(a.data()) % kHugePageBytes);
  if (mapped == MAP_FAILED) return fail_errno("mmap", errno);
  auto* const parking = static_cast<std::byte*>(mapped);
  if (!move_pages(a.data(), parking, bytes, MREMAP_DONTUNMAP)) {
    const int error = errno;
    munmap(parking, bytes);
    return fail_errno("mremap", error);
  }
  // The kernel may refuse this move to a process that is near its limit of mappings. In this case the bytes
  // are copied.
  const auto unpark = [&](std::span<std::byte> to) {
    if (move_pages(parking, to.data(), bytes)) return;
    std::memcpy(to.data(), parking, bytes);
    munmap(parking, bytes);
  };
  if (!move_pages(b.data(), a.data(), bytes, MREMAP_DONTUNMAP)) {
    const int error = errno;
    unpark(a);
    return fail_errno("mremap", error);
  }
  unpark(b);
  return {};
}

/// Returns the largest part that consists of whole units in both ranges.
PageExchange::Part PageExchange::whole_units(std::span<const std::byte> a, std::span<const std::byte> b,
                                             std::size_t unit) {
  if ((address_of(a.data()) - address_of(b.data())) % unit != 0) return {};
  const std::size_t offset = (unit - address_of(a.data()) % unit) % unit;
  if (offset >= a.size()) return {};
  return {offset, (a.size() - offset) / unit * unit};
}

PageExchange::Part PageExchange::exchanged_part(std::span<const std::byte> source,
                                                std::span<const std::byte> destination) const {
  const Part tables = whole_units(source, destination, kHugePageBytes);
  if (tables.bytes >= break_even_.of_tables) return tables;
  const Part pages = whole_units(source, destination, kPageBytes);
  return pages.bytes >= break_even_.of_pages ? pages : Part{};
}

std::size_t PageExchange::hand_off(std::span<std::byte> source, std::span<std::byte> destination) const {
  assert(source.size() == destination.size());
  Part part = exchanged_part(source, destination);
  const auto pages = destination.subspan(part.offset, part.bytes);
  if (!pages.empty() && (!discard(pages) || !exchange(source.subspan(part.offset, part.bytes), pages)))
    part = {};
  const std::size_t end = part.offset + part.bytes;
  std::ranges::copy(source.first(part.offset), destination.begin());
  std::ranges::copy(source.subspan(end), destination.subspan(end).begin());
  return source.size() - part.bytes;
}

}  // namespace rdmc::memory
