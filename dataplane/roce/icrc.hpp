// The invariant CRC of RoCEv2 (IBTA vol. 1, A17.3.3 and 7.8.1). It is Ethernet's CRC-32 over the packet from
// the IP header on, with the fields that routers change masked to ones. All functions are pure. ISA-L
// computes the CRC-32.
//
// A UDP socket does not show the IP header. So the IP header is computed from the values that are known:
// addresses, port numbers, length, and the IPv4 identification that the sender used. DF is set, and there are
// no IP options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/address.hpp"
#include "dataplane/base/bytes.hpp"

namespace rdmc::roce {

/// The ICRC of one direction of one UDP flow. The parts that do not depend on the packet are prepared once. A
/// computation costs as much as the CRC of the packet's bytes and of about 30 additional bytes.
class Icrc {
 public:
  /// Both addresses must have the same address family. For IPv6 `identification` is ignored in all functions,
  /// because IPv6 has none.
  Icrc(const Address& source, const Address& destination);

  /// Returns the ICRC of a datagram of `datagram_bytes` bytes of UDP payload, from the BTH to the ICRC
  /// inclusive. The result is the 32-bit value that is stored little endian. `headers` is the BTH and the
  /// extension headers. `payload` is the bytes between `headers` and the pad.
  std::uint32_t compute(std::uint16_t identification, std::size_t datagram_bytes,
                        std::span<const std::byte> headers, std::span<const std::byte> payload,
                        std::size_t pad_bytes) const noexcept;
  /// Returns the same value as compute(), if the raw CRC of payload and pad is already known (see
  /// payload_crc). Reads only the headers.
  std::uint32_t compute_with(std::uint16_t identification, std::size_t datagram_bytes,
                             std::span<const std::byte> headers, std::uint32_t payload_crc,
                             std::size_t payload_and_pad_bytes) const noexcept;

  /// Finds the identification with which the sender computed the ICRC `received`. compute(tried, …) must have
  /// returned `computed` for the same datagram. Returns nullopt if there is no such identification. In that
  /// case the datagram is corrupt. By chance, one of 2^16 corrupt datagrams is accepted. The method works
  /// because the CRC is linear: the two ICRCs differ by the difference of the two identifications, multiplied
  /// by a known factor. Only for IPv4.
  std::optional<std::uint16_t> solve_identification(std::uint16_t tried, std::uint32_t computed,
                                                    std::uint32_t received,
                                                    std::size_t datagram_bytes) const noexcept;

 private:
  /// Returns the CRC from the IP header to the end of `headers`.
  std::uint32_t header_crc(std::uint16_t identification, std::size_t datagram_bytes,
                           std::span<const std::byte> headers) const noexcept;

  bool ipv6_;
  std::uint8_t template_[48];  ///< The IP and UDP headers, with the fields that routers change masked.
  std::size_t template_bytes_;
};

/// Store and load the ICRC, which is the last four bytes of a datagram. It is the only little-endian field on
/// the wire.
inline void store_icrc(std::byte* to, std::uint32_t icrc) noexcept {
  store_be(to, byte_swap(icrc));
}
inline std::uint32_t load_icrc(const std::byte* from) noexcept {
  return byte_swap(load_be<std::uint32_t>(from));
}

/// Returns the CRC-32 of payload and pad, for compute_with (reflected, zlib convention: initial and final
/// inversion).
std::uint32_t payload_crc(std::span<const std::byte> payload, std::size_t pad_bytes) noexcept;

/// Returns crc(A || B), computed from crc(A), crc(B) and the length of B by multiplication modulo the
/// polynomial (zlib convention).
std::uint32_t crc_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::size_t bytes_b) noexcept;

}  // namespace rdmc::roce
