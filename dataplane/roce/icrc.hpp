// The invariant CRC of RoCEv2 (IBTA vol. 1, A17.3.3 and 7.8.1): Ethernet's CRC-32 over the packet from the IP
// header on, with the fields that routers change masked to ones. Pure; the CRC itself is ISA-L's.
//
// A UDP socket never shows the IP header, so the pseudo header is computed from what is known: addresses,
// ports, length, and the IPv4 identification that the sender used. DF is set, no options.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/base/address.hpp"
#include "dataplane/base/bytes.hpp"

namespace rdmc::roce {

/// One direction of one UDP flow: what does not depend on the packet is prepared once. Cost beyond the CRC of
/// the bytes themselves: that of about 30 more.
class Icrc {
 public:
  /// Both of one family. For IPv6 the identification given to compute is ignored: there is none.
  Icrc(const Address& source, const Address& destination);

  /// The ICRC of a datagram of `datagram_bytes` UDP payload (BTH … pad, ICRC included in the count), as the
  /// 32-bit value that is stored little endian. `headers` is BTH and extension headers, `payload` what
  /// follows up to the pad.
  std::uint32_t compute(std::uint16_t identification, std::size_t datagram_bytes,
                        std::span<const std::byte> headers, std::span<const std::byte> payload,
                        std::size_t pad_bytes) const noexcept;
  /// The same when the raw CRC of payload and pad is known already (see payload_crc): nothing but headers is
  /// read.
  std::uint32_t compute_with(std::uint16_t identification, std::size_t datagram_bytes,
                             std::span<const std::byte> headers, std::uint32_t payload_crc,
                             std::size_t payload_and_pad_bytes) const noexcept;

  /// The identification that explains why a datagram carries the ICRC `received` where compute(tried, …)
  /// gives `computed`; nothing if none does: the datagram is corrupt, but for one in 2^16. The CRC is linear,
  /// so the two differ by what the unknown 16 bits are multiplied by on their way to the end. IPv4 only.
  std::optional<std::uint16_t> solve_identification(std::uint16_t tried, std::uint32_t computed,
                                                    std::uint32_t received,
                                                    std::size_t datagram_bytes) const noexcept;

 private:
  /// The CRC up to the end of `headers`.
  std::uint32_t header_crc(std::uint16_t identification, std::size_t datagram_bytes,
                           std::span<const std::byte> headers) const noexcept;

  bool ipv6_;
  std::uint8_t template_[48];  ///< IP and UDP header with the changeable fields masked
  std::size_t template_bytes_;
};

/// The last four bytes of a datagram, the one little-endian field of the wire.
inline void store_icrc(std::byte* to, std::uint32_t icrc) noexcept {
  store_be(to, byte_swap(icrc));
}
inline std::uint32_t load_icrc(const std::byte* from) noexcept {
  return byte_swap(load_be<std::uint32_t>(from));
}

/// CRC-32 (reflected, zlib convention: initial and final inversion) of payload and pad, for compute_with.
std::uint32_t payload_crc(std::span<const std::byte> payload, std::size_t pad_bytes) noexcept;

/// crc(A || B) from crc(A), crc(B) and the length of B (zlib convention), by multiplication modulo the
/// polynomial.
std::uint32_t crc_combine(std::uint32_t crc_a, std::uint32_t crc_b, std::size_t bytes_b) noexcept;

}  // namespace rdmc::roce
