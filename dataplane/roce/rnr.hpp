// The AETH syndromes (IBTA vol. 1, 9.7.5.1, table 44) and the table of the RNR timer (table 45).
#pragma once

#include <array>
#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

/// The kind is in the upper three bits of a syndrome. The lower five bits carry credits, a timer code or the
/// reason of a NAK.
enum class AethKind : std::uint8_t { acknowledge = 0, receiver_not_ready = 1, negative = 3 };
constexpr AethKind kind_of(std::uint8_t syndrome) {
  return static_cast<AethKind>(syndrome >> 5);
}

/// True if the syndrome is reserved: kind 2, all kinds from 4 on, and NAK codes from 4 on.
constexpr bool is_reserved(std::uint8_t syndrome) {
  return kind_of(syndrome) == AethKind{2} || syndrome >= 0x64;
}

/// An ACK with credit code 31: this end reports no credits. RNR NAKs slow down a peer that sends too much.
inline constexpr std::uint8_t kAckSyndrome = 0x1F;
inline constexpr std::uint8_t kSequenceError = 0x60, kInvalidRequest = 0x61, kRemoteAccess = 0x62,
                              kRemoteOperational = 0x63;
constexpr std::uint8_t rnr_syndrome(std::uint8_t timer_code) {
  return static_cast<std::uint8_t>(0x20 | (timer_code & 0x1F));
}

/// Returns how long the requester waits after an RNR NAK with this syndrome before it sends the request
/// again.
constexpr Duration rnr_delay(std::uint8_t syndrome) {
  constexpr std::array<std::int32_t, 32> kMicroseconds{
      655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
      480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
      20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};
  return microseconds(kMicroseconds[syndrome & 0x1F]);
}

}  // namespace rdmc::roce
