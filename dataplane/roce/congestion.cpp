#include "dataplane/roce/congestion.hpp"

#include <algorithm>
#include <cmath>

namespace rdmc::roce {

Congestion::Congestion(const Options& options)
    : options_(options),
      bytes_(std::min(options.window_bytes,
                      std::max(kInitialWindowBytes, kMinimumWindowPackets * options.path_mtu))),
      window_(options.enabled ? static_cast<std::uint32_t>(bytes_) : options.window_bytes) {}

Duration Congestion::link_time() const {
  if (link_ == 0) return {};
  const auto time = static_cast<std::int64_t>(kTargetBytes * std::uint64_t{1'000'000'000} / link_);
  return std::min(nanoseconds(time), kMostLinkTime);
}

// The target depends on the window as in Swift, section 3.5: alpha / sqrt(cwnd) + beta. Both constants are
// chosen so that the scaling range lies between the window sizes kScalingLowPackets and kScalingHighPackets.
Duration Congestion::target() const {
  const double low = 1 / std::sqrt(kScalingLowPackets), high = 1 / std::sqrt(kScalingHighPackets);
  const double packets = std::max(bytes_ / options_.path_mtu, 1.0);
  const double share = std::clamp((1 / std::sqrt(packets) - high) / (low - high), 0.0, 1.0);
  Duration base = options_.selective_repeat ? kTargetDelay : kStandardTargetDelay;
  if (options_.selective_repeat) base = std::max(base, link_time());
  const Duration range = options_.selective_repeat ? kScalingRange : kStandardTargetDelay;
  return base + Duration{static_cast<std::int64_t>(share * static_cast<double>(range.ns))};
}

// If a flow starts while other flows have a queue, it measures this queue as a part of the path's length. So
// a flow may steer to the least round trip plus a whole target only while its window opens, and only on a
// path that is longer than such a queue.
//
// If full packets take longer than small ones, the path probably has slow links. Then a queue of a single
// packet takes as long as this difference, so the margin is at least the difference. But full packets may
// also have waited in a queue, so the difference counts only up to kMostPathMargin.
Duration Congestion::aim_on(const RoundTrip& path) const {
  if (slow_start_ && path.least() >= std::max(kPatientStart, link_time())) return path.least() + target();
  const Duration packet = std::min(path.least_of_full() - path.least(), kMostPathMargin);
  const Duration full = path.least() + packet;
  return std::max(target(), full + std::max({kPathMargin, full / kPathMarginShare, packet}));
}

void Congestion::on_acknowledge(std::optional<Duration> rtt, const RoundTrip& path, std::uint32_t bytes,
                                bool limited, Time now) {
  if (!options_.enabled) return;
  acknowledged_ += bytes;
  if (rtt) {
    least_ = least_ ? std::min(*least_, *rtt) : *rtt;
    ++samples_;
  }
  const Duration aim = aim_on(path);
  if (limited && least_ && *least_ <= aim) {
    const double rounds = std::max(static_cast<double>(path.least().ns) / kLongPath.ns, 1.0);
    bytes_ += slow_start_ ? bytes : rounds * kAdditiveIncrease * options_.path_mtu * bytes / bytes_;
    if (bytes_ >= slow_start_end_) slow_start_ = false;
    clamp();
  }
  // Retransmissions measure no round trip, so a round with losses may end without enough samples.
  if ((samples_ >= kSamplesPerRound || lost_ > 0) && now - round_start_ >= path.smoothed())
    end_round(aim, path, now);
}

// The bytes that are on a long path need no space in the peer's buffer. Their number is estimated as the
// number of bytes that arrive in one round trip at the rate of this round. The estimate shrinks only slowly,
// because a flow may have sent little in one round.
void Congestion::measure_path(const RoundTrip& path, Time now) {
  constexpr double kKept = 0.875;
  if (path.least() < kLongPath) {
    path_bytes_ = 0;
  } else {
    const double rounds = static_cast<double>((now - round_start_).ns) / static_cast<double>(path.least().ns);
    path_bytes_ = std::min(std::max(kKept * path_bytes_, acknowledged_ / rounds), kMostPathBytes);
  }
  clamp();
}

void Congestion::end_round(Duration aim, const RoundTrip& path, Time now) {
  measure_path(path, now);
  if (least_ && *least_ > aim) {
    const double excess = static_cast<double>((*least_ - aim).ns) / static_cast<double>(least_->ns);
    scale(std::max(1 - kDecreaseSlope * excess, 1 - kMostDecrease));
    recovery_rounds_ = 0;
  } else if (recovery_rounds_ > 0) {
    --recovery_rounds_;
    bytes_ += (recover_to_ - bytes_) / 2;
    clamp();
  }
  lossy_rounds_ = lost_ > 0 ? lossy_rounds_ + 1 : 0;
  const bool heavy = options_.selective_repeat
                         ? lost_ > 4.0 * options_.path_mtu && lost_ > kHeavyLoss * (lost_ + acknowledged_)
                         : lossy_rounds_ >= kLossyRounds;
  if (heavy) {
    scale(kHeavyLossDecrease);
    lossy_rounds_ = 0;
  }
  round_start_ = now;
  least_.reset();
  samples_ = 0;
  acknowledged_ = lost_ = 0;
}

void Congestion::on_loss(std::uint32_t packets) {
  lost_ += static_cast<double>(packets) * options_.path_mtu;
  if (!options_.selective_repeat) slow_start_ = false;
}

// It is unknown which packets in flight have arrived, so the window is halved. With selective repeat it then
// doubles in each round trip up to its earlier size. So the halving costs little if the peer's host only got
// no CPU for a while.
void Congestion::on_timeout() {
  if (!options_.enabled) return;
  if (!slow_start_) slow_start_end_ = bytes_;
  scale(0.5);
  slow_start_ = options_.selective_repeat;
}

void Congestion::on_notification(const RoundTrip& path, Time now) {
  if (!options_.enabled) return;
  if (notified_) {
    const auto periods = static_cast<double>((now - *notified_).ns / kMarkPeriod.ns);
    marked_ *= std::pow(1 - kMarkGain, periods);
  }
  notified_ = now;
  const double marked = marked_;
  marked_ = (1 - kMarkGain) * marked_ + kMarkGain;
  const Duration between = path.measured() ? path.smoothed() : kNotificationInterval;
  if (cut_ && now - *cut_ < between) return;
  cut_ = now;
  recover_to_ = bytes_;
  recovery_rounds_ = kRecoveryRounds;
  scale(1 - marked / 2);
  // Packets that were sent before the cut give no information about the window after it.
  round_start_ = now;
  least_.reset();
  samples_ = 0;
  acknowledged_ = lost_ = 0;
}

void Congestion::scale(double factor) {
  bytes_ *= factor;
  slow_start_ = false;
  clamp();
}

void Congestion::clamp() {
  const double least = kMinimumWindowPackets * options_.path_mtu;
  bytes_ = std::clamp(bytes_, std::min<double>(least, options_.window_bytes),
                      std::min(options_.window_bytes + path_bytes_, kMostWindowBytes));
  window_ = static_cast<std::uint32_t>(bytes_);
}

}  // namespace rdmc::roce
