// End-to-end credits (IBTA vol. 1, 9.7.7.2). With each AETH a responder reports how many receives are posted.
// The requester starts no message that would find no receive. Credits count messages. If a message finds no
// receive nevertheless, it gets an RNR NAK. The classes are plain values and do no I/O.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

/// The number of credits for each code (table 46). Code 31 means that no number is reported: credits are
/// unlimited.
inline constexpr std::array<std::uint32_t, 31> kCreditCodes{
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
inline constexpr std::uint8_t kUnlimitedCredits = 31;

/// Returns the code of the largest number of credits that does not exceed `receives`.
constexpr std::uint8_t credit_code(std::uint64_t receives) {
  const auto above = std::upper_bound(kCreditCodes.begin(), kCreditCodes.end(), receives);
  return static_cast<std::uint8_t>(above - kCreditCodes.begin() - 1);
}

/// The credits at the requester. Messages are numbered from 1 in the order in which they start (SSN). The
/// requester may always start one message beyond the limit, because the answer to this message can report new
/// credits ("limited send").
class SendCredits {
 public:
  explicit SendCredits(bool limited) : limited_(limited) {}

  /// `consumes` is true if the message needs a posted receive (SEND, WRITE with immediate).
  bool may_start(bool consumes) const { return !limited_ || !consumes || started_ <= limit_; }
  void on_start(bool consumes) {
    if (!limited_) return;
    ++started_;
    if (!consumes) ++limit_;  // The message counts in the MSN, but needs no receive.
  }
  /// Handles an AETH of the kind `acknowledge`. Once credits are unlimited, they stay unlimited.
  void on_answer(std::uint8_t syndrome, std::uint32_t msn) {
    if (!limited_) return;
    const std::uint8_t code = syndrome & 0x1F;
    if (code == kUnlimitedCredits) {
      limited_ = false;
      return;
    }
    const std::int32_t behind = Psn(msn) - Psn(static_cast<std::uint32_t>(started_));
    if (behind > 0) return;  // The answer is malformed: it acknowledges more messages than were started.
    limit_ = std::max(limit_, static_cast<std::int64_t>(started_) + behind + kCreditCodes[code]);
  }

 private:
  bool limited_;
  std::int64_t started_ = 0;
  std::int64_t limit_ = 0;  ///< The highest message number that has a receive (LSN).
};

}  // namespace rdmc::roce
