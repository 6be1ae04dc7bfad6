// End-to-end credits (IBTA vol. 1, 9.7.7.2): with each AETH a responder says how many receives are posted,
// and the requester starts no message that would find none. Credits count messages; RNR NAK remains the
// safety net. Values only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "dataplane/base/types.hpp"

namespace rdmc::roce {

/// Credits by their code (table 46); code 31 says that none are reported: unlimited.
inline constexpr std::array<std::uint32_t, 31> kCreditCodes{
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
inline constexpr std::uint8_t kUnlimitedCredits = 31;

/// The code of the most credits that do not exceed `receives`.
constexpr std::uint8_t credit_code(std::uint64_t receives) {
  const auto above = std::upper_bound(kCreditCodes.begin(), kCreditCodes.end(), receives);
  return static_cast<std::uint8_t>(above - kCreditCodes.begin() - 1);
}

/// The requester's half. Messages are numbered from 1 in the order in which they start (SSN); one may always
/// leave beyond the limit, so that its answer can bring new credits ("limited send").
class SendCredits {
 public:
  explicit SendCredits(bool limited) : limited_(limited) {}

  /// `consumes`: the message will need a posted receive (SEND, WRITE with immediate).
  bool may_start(bool consumes) const { return !limited_ || !consumes || started_ <= limit_; }
  void on_start(bool consumes) {
    if (!limited_) return;
    ++started_;
    if (!consumes) ++limit_;  // it will count in the MSN, and costs no receive
  }
  /// An AETH of the kind `acknowledge`. Once unlimited stays unlimited.
  void on_answer(std::uint8_t syndrome, std::uint32_t msn) {
    if (!limited_) return;
    const std::uint8_t code = syndrome & 0x1F;
    if (code == kUnlimitedCredits) {
      limited_ = false;
      return;
    }
    const std::int32_t behind = Psn(msn) - Psn(static_cast<std::uint32_t>(started_));
    if (behind > 0) return;  // answers more messages than there were
    limit_ = std::max(limit_, static_cast<std::int64_t>(started_) + behind + kCreditCodes[code]);
  }

 private:
  bool limited_;
  std::int64_t started_ = 0;
  std::int64_t limit_ = 0;  ///< the highest message number that has a receive (LSN)
};

}  // namespace rdmc::roce
