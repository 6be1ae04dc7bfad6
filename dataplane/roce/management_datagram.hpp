// The one unreliable datagram that every RoCE endpoint understands: a management datagram (MAD) between the
// queue pairs 1 of two hosts (IBTA vol. 1, 9.8.3 and 13.5.1). Foreign endpoints make connections with it. The
// functions are pure. The fabric checks and writes the ICRC, as it does for every packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "dataplane/base/types.hpp"
#include "dataplane/roce/headers.hpp"

namespace rdmc::roce {

inline constexpr Qpn kManagementQpn{1};
inline constexpr std::size_t kMadBytes = 256, kDethBytes = 8;
inline constexpr std::size_t kManagementHeaderBytes = kBthBytes + kDethBytes;

/// True if the opcode of the datagram is UD SEND ONLY. Nothing else is checked.
bool is_datagram_send(std::span<const std::byte> datagram) noexcept;

/// Returns the MAD in a UDP payload that goes from BTH to ICRC. The result refers to `datagram`. Errors:
/// those of parse_packet. In addition, bad_length if the size is not that of a MAD, and bad_partition if the
/// Q_Key or the queue pair is wrong.
std::expected<std::span<const std::byte, kMadBytes>, ParseError> parse_management(
    std::span<const std::byte> datagram) noexcept;

/// Writes the BTH and DETH of a MAD. `out` must have space for kManagementHeaderBytes bytes.
void write_management(std::byte* out, Psn psn) noexcept;

}  // namespace rdmc::roce
