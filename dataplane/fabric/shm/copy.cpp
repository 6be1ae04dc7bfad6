#include "dataplane/fabric/shm/copy.hpp"

#include <cstdint>
#include <cstring>
#include <fstream>

#if defined(__SSE2__)
#include <cpuid.h>
#include <emmintrin.h>
#endif

namespace rdmc::fabric::shm {
namespace {

/// The assumed size of the last-level cache, in units of 1024 bytes, if the system does not report the size.
constexpr std::size_t kUsualCache = 16 << 10;

/// Returns the size of one last-level cache, in units of 1024 bytes. (On some machines, sysconf() returns the
/// sum of all last-level caches.)
std::size_t last_level_kilobytes() {
  std::size_t size = 0;
  char unit = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> size >> unit;
  return unit == 'K' ? size : kUsualCache;
}

#if defined(__SSE2__)
/// True if a string move is the fastest copy ("enhanced REP MOVSB"). A string move fills whole cache lines
/// without reading them first, and leaves them in the cache.
bool moves_strings_fast() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & 1U << 9) != 0;
}
#endif

}  // namespace

std::size_t cached_bytes() {
  static const std::size_t half = last_level_kilobytes() << 9;
  return half;
}

void copy_through_cache(std::span<std::byte> to, std::span<const std::byte> from) {
#if defined(__SSE2__)
  static const bool fast = moves_strings_fast();
  if (fast) {
    std::byte* out = to.data();
    const std::byte* in = from.data();
    std::size_t left = to.size();
    asm volatile("rep movsb" : "+D"(out), "+S"(in), "+c"(left) : : "memory");
    return;
  }
#endif
  std::memcpy(to.data(), from.data(), to.size());
}

void copy_past_cache(std::span<std::byte> to, std::span<const std::byte> from) {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64;
  /// The distance of the prefetch in bytes. The loop prefetches, because the hardware prefetcher stops at the
  /// end of each page.
  constexpr std::size_t kAhead = 8 * kLine;
  std::byte* out = to.data();
  const std::byte* in = from.data();
  std::size_t left = to.size();
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(out) % kLine) % kLine;
  if (left < 4 * kLine + head) {
    std::memcpy(out, in, left);
    return;
  }
  std::memcpy(out, in, head);
  out += head;
  in += head;
  left -= head;
  for (; left >= kLine; left -= kLine, in += kLine, out += kLine) {
    if (left > kAhead + kLine) _mm_prefetch(reinterpret_cast<const char*>(in + kAhead), _MM_HINT_T0);
    const auto* const source = reinterpret_cast<const __m128i*>(in);
    auto* const target = reinterpret_cast<__m128i*>(out);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
  std::memcpy(out, in, left);
#else
  std::memcpy(to.data(), from.data(), to.size());
#endif
}

}  // namespace rdmc::fabric::shm
