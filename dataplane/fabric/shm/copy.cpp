#include "dataplane/fabric/shm/copy.hpp"

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace rdmc::fabric::shm {

void copy_past_cache(std::span<std::byte> to, std::span<const std::byte> from) {
#if defined(__SSE2__)
  constexpr std::size_t kLine = 64;
  /// Read so far ahead of the copy: the hardware stops at the end of each page.
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
