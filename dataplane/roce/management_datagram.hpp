// The one unreliable datagram that every RoCE endpoint understands: a management datagram (MAD) between the
// queue pairs 1 of two hosts, by which strangers make connections (IBTA vol. 1, 9.8.3 and 13.5.1). Pure; the
// ICRC is checked and written by the fabric, as for every packet.
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

/// Whether a datagram is a UD SEND ONLY at all.
bool is_datagram_send(std::span<const std::byte> datagram) noexcept;

/// The MAD in a UDP payload, BTH to ICRC; refers to it. Besides the errors of parse_packet's: bad_length also
/// for any size but that of a MAD, bad_partition also for the wrong Q_Key or queue pair.
std::expected<std::span<const std::byte, kMadBytes>, ParseError> parse_management(
    std::span<const std::byte> datagram) noexcept;

/// BTH and DETH before a MAD. `out` has room for kManagementHeaderBytes.
void write_management(std::byte* out, Psn psn) noexcept;

}  // namespace rdmc::roce
