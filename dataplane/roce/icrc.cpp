#include "dataplane/roce/icrc.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "dataplane/base/bytes.hpp"

namespace rdmc::roce {
namespace {

#if defined(__x86_64__)
// ISA-L 2.30 returns with the upper halves of the vector registers in use. From then on SSE instructions have
// to preserve them, which costs 160 ns for the very next header (measured).
void leave_vector_state() {
  static const bool has_avx = __builtin_cpu_supports("avx");
  if (has_avx) __asm__ volatile("vzeroupper");
}
#else
void leave_vector_state() {}
#endif

// From this size on ISA-L computes with the wide registers.
constexpr std::size_t kWideBytes = 256;

std::uint32_t crc32(std::uint32_t seed, const void* bytes, std::size_t size) {
  const std::uint32_t crc = crc32_gzip_refl(seed, static_cast<const unsigned char*>(bytes), size);
  if (size >= kWideBytes) leave_vector_state();
  return crc;
}

constexpr std::uint32_t kPolynomial = 0xEDB88320;  // Reflected: bit 31 is x^0.

// kSlices[k][b] is byte b followed by k zero bytes, modulo the polynomial ("slicing").
constexpr auto make_slices() {
  std::array<std::array<std::uint32_t, 256>, 4> slices{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t remainder = b;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ (remainder & 1 ? kPolynomial : 0);
    slices[0][b] = remainder;
  }
  for (std::size_t k = 1; k < 4; ++k)
    for (std::size_t b = 0; b < 256; ++b)
      slices[k][b] = slices[k - 1][b] >> 8 ^ slices[0][slices[k - 1][b] & 0xFF];
  return slices;
}
constexpr auto kSlices = make_slices();

constexpr std::uint32_t times_x32(std::uint32_t p) {
  return kSlices[3][p & 0xFF] ^ kSlices[2][p >> 8 & 0xFF] ^ kSlices[1][p >> 16 & 0xFF] ^ kSlices[0][p >> 24];
}

// Computes a carry-less product by ordinary multiplications. Each multiplication takes only every fourth bit
// of each factor. So at most eight one-bits are added in one bit position, and their carries stay in the
// three empty positions above it (T. Pornin, "Constant-time multiplication", BearSSL). No instruction of a
// particular machine is needed.
constexpr std::uint64_t carryless_multiply(std::uint32_t a, std::uint32_t b) {
  constexpr std::uint64_t kEveryFourth = 0x1111'1111'1111'1111;
  std::uint64_t product = 0;
  for (unsigned lane = 0; lane < 4; ++lane) {
    std::uint64_t sum = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint64_t x = a & static_cast<std::uint32_t>(kEveryFourth << i);
      const std::uint64_t y = b & static_cast<std::uint32_t>(kEveryFourth << ((lane - i) & 3));
      sum ^= x * y;
    }
    product |= sum & kEveryFourth << lane;
  }
  return product;
}

constexpr std::uint32_t multiply_modulo(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = carryless_multiply(a, b) << 1;  // Bit k is x^(63-k).
  return static_cast<std::uint32_t>(product >> 32) ^ times_x32(static_cast<std::uint32_t>(product));
}

// kPowers[k][d] is x^(8 d 256^k). A CRC is multiplied by it when d 256^k bytes are appended.
constexpr auto make_powers() {
  std::array<std::array<std::uint32_t, 256>, sizeof(std::size_t)> powers{};
  std::uint32_t step = 1u << (31 - 8);
  for (auto& digit : powers) {
    digit[0] = 1u << 31;
    for (std::size_t d = 1; d < 256; ++d) digit[d] = multiply_modulo(digit[d - 1], step);
    step = multiply_modulo(digit[255], step);
  }
  return powers;
}
constexpr auto kPowers = make_powers();

// The CRC of the eight bytes of ones that replace the masked local route header.
constexpr std::uint32_t kRouteHeaderCrc = 0x2144DF1C;

constexpr std::size_t kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8;
// The size of a buffer that is large enough for all headers except those of an x_acknowledge with a long
// bitmap.
constexpr std::size_t kInlineHeaderBytes = 64;
constexpr std::byte kZeros[4]{};

}  // namespace

std::uint32_t payload_crc(std::span<const std::byte> payload, std::size_t pad_bytes) noexcept {
  assert(pad_bytes < sizeof kZeros);
  const std::uint32_t crc = crc32(0, payload.data(), payload.size());
  return pad_bytes == 0 ? crc : crc32(crc, kZeros, pad_bytes);
}

std::uint32_t crc_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::size_t bytes_b) noexcept {
  for (const auto& digit : kPowers) {
    if (bytes_b == 0) break;
    if ((bytes_b & 0xFF) != 0) crc_a = multiply_modulo(crc_a, digit[bytes_b & 0xFF]);
    bytes_b >>= 8;
  }
  return crc_a ^ crc_b;
}

Icrc::Icrc(const Address& source, const Address& destination) : ipv6_(source.ipv6), template_{} {
  assert(source.ipv6 == destination.ipv6);
  std::uint8_t* ip = template_;
  const auto source_ip = source.ip(), destination_ip = destination.ip();
  if (ipv6_) {
    // Traffic class, flow label and hop limit are masked.
    constexpr std::uint8_t kStart[8]{0x6F, 0xFF, 0xFF, 0xFF, 0, 0, 17, 0xFF};
    std::copy_n(kStart, sizeof kStart, ip);
    std::copy(destination_ip.begin(), destination_ip.end(),
              std::copy(source_ip.begin(), source_ip.end(), ip + 8));
    template_bytes_ = kIpv6Bytes + kUdpBytes;
  } else {
    // TOS, TTL and checksum are masked.
    constexpr std::uint8_t kStart[12]{0x45, 0xFF, 0, 0, 0, 0, 0x40, 0, 0xFF, 17, 0xFF, 0xFF};
    std::copy_n(kStart, sizeof kStart, ip);
    std::copy(destination_ip.begin(), destination_ip.end(),
              std::copy(source_ip.begin(), source_ip.end(), ip + 12));
    template_bytes_ = kIpv4Bytes + kUdpBytes;
  }
  std::byte* udp = reinterpret_cast<std::byte*>(template_) + template_bytes_ - kUdpBytes;
  store_be(udp, source.port);
  store_be(udp + 2, destination.port);
  store_be(udp + 6, std::uint16_t{0xFFFF});
}

std::uint32_t Icrc::header_crc(std::uint16_t identification, std::size_t datagram_bytes,
                               std::span<const std::byte> headers) const noexcept {
  std::byte block[sizeof template_ + kInlineHeaderBytes];
  std::memcpy(block, template_, sizeof template_);
  const auto udp_bytes = static_cast<std::uint16_t>(datagram_bytes + kUdpBytes);
  if (ipv6_) {
    store_be(block + 4, udp_bytes);
  } else {
    store_be(block + 2, static_cast<std::uint16_t>(udp_bytes + kIpv4Bytes));
    store_be(block + 4, identification);
  }
  store_be(block + template_bytes_ - 4, udp_bytes);

  const std::size_t inline_bytes = std::min(headers.size(), kInlineHeaderBytes);
  std::byte* bth = block + template_bytes_;
  std::memcpy(bth, headers.data(), inline_bytes);
  bth[4] = std::byte{0xFF};  // FECN, BECN and the reserved bits next to them are masked.
  const std::uint32_t crc = crc32(kRouteHeaderCrc, block, template_bytes_ + inline_bytes);
  return inline_bytes == headers.size()
             ? crc
             : crc32(crc, headers.data() + inline_bytes, headers.size() - inline_bytes);
}

std::uint32_t Icrc::compute(std::uint16_t identification, std::size_t datagram_bytes,
                            std::span<const std::byte> headers, std::span<const std::byte> payload,
                            std::size_t pad_bytes) const noexcept {
  assert(pad_bytes < sizeof kZeros);
  std::uint32_t crc = header_crc(identification, datagram_bytes, headers);
  if (!payload.empty()) crc = crc32(crc, payload.data(), payload.size());
  return pad_bytes == 0 ? crc : crc32(crc, kZeros, pad_bytes);
}

std::uint32_t Icrc::compute_with(std::uint16_t identification, std::size_t datagram_bytes,
                                 std::span<const std::byte> headers, std::uint32_t payload_crc,
                                 std::size_t payload_and_pad_bytes) const noexcept {
  return crc_combine(header_crc(identification, datagram_bytes, headers), payload_crc, payload_and_pad_bytes);
}

std::optional<std::uint16_t> Icrc::solve_identification(std::uint16_t tried, std::uint32_t computed,
                                                        std::uint32_t received,
                                                        std::size_t datagram_bytes) const noexcept {
  if (ipv6_) return std::nullopt;
  if (computed == received) return tried;
  // x^(2^32 - 1) is 1 modulo the polynomial. So appending 2^32 - 1 - n zero bytes is the same as removing n
  // zero bytes. Here n is the number of bytes after the identification, plus four, because a CRC is the
  // remainder of the message times x^32.
  constexpr std::size_t kPeriod = 0xFFFF'FFFF, kCrcBytes = 4;
  const std::size_t following = kIpv4Bytes - 6 + kUdpBytes + datagram_bytes - kCrcBytes;
  const std::uint32_t difference = crc_combine(computed ^ received, 0, kPeriod - kCrcBytes - following);
  // The ICRCs differ for another reason than the two bytes of the identification.
  if ((difference & 0xFFFF) != 0) return std::nullopt;
  return static_cast<std::uint16_t>(tried ^ byte_swap(static_cast<std::uint16_t>(difference >> 16)));
}

}  // namespace rdmc::roce
