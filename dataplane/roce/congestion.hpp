// Congestion control: how many bytes a requester may have in flight. It is Swift's delay-based control (Kumar
// et al., SIGCOMM 2020), without Swift's pacing below one packet. The control steers the round trip to a
// target. Below the target the window grows additively. Above the target it shrinks by a factor, at most once
// per round trip. With selective repeat a few lost packets change nothing, but heavy loss shrinks the window.
// A timeout shrinks the window, too. With selective repeat, the first timeout in a row does not shrink it,
// and neither does a timeout before a round trip has been measured. Where switches mark packets instead of
// dropping them, the peer's congestion notifications reduce the window as DCQCN reduces its rate.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "dataplane/base/types.hpp"
#include "dataplane/roce/constants.hpp"
#include "dataplane/roce/round_trip.hpp"

namespace rdmc::roce {

class Congestion {
 public:
  struct Options {
    bool enabled = false;
    bool selective_repeat = false;
    std::uint32_t path_mtu = 1024;
    std::uint32_t window_bytes = 1 << 20;
  };
  explicit Congestion(const Options& options);

  /// The congestion window in bytes. It is at most Options::window_bytes, the capacity of the peer's receive
  /// buffer. On a long path, it may be larger by the number of bytes that the path itself holds.
  std::uint32_t window() const { return window_; }
  /// Sets the rate of this host's own link. 0 means unknown.
  void set_link(std::uint64_t bytes_per_second) { link_ = bytes_per_second; }
  /// Returns the time that kTargetBytes bytes take on this host's own link, but at most kMostLinkTime.
  /// Returns 0 if the link's speed is unknown.
  Duration link_time() const;

  /// Called when `bytes` were newly acknowledged. `rtt` has a value if the acknowledgement measured a round
  /// trip. `path` is the estimate of the round trip, including this one. `limited` is true if packets had to
  /// wait because of the window, and false if the application had nothing to send.
  void on_acknowledge(std::optional<Duration> rtt, const RoundTrip& path, std::uint32_t bytes, bool limited,
                      Time now);
  /// Called when `packets` packets were found lost. In go-back-N a gap counts as one packet, however many
  /// packets are sent again.
  void on_loss(std::uint32_t packets);
  void on_timeout();
  /// Called when the peer reports that it received marked packets. Reduces the window at most once per round
  /// trip.
  void on_notification(const RoundTrip& path, Time now);

  /// The round trip that the control steers to with the present window. It is used if the path itself is not
  /// longer than this round trip.
  Duration target() const;

 private:
  /// The round trip that the control steers to on `path`.
  Duration aim_on(const RoundTrip& path) const;
  void end_round(Duration aim, const RoundTrip& path, Time now);
  void measure_path(const RoundTrip& path, Time now);
  void scale(double factor);
  void clamp();

  Options options_;
  double bytes_;  ///< Swift's cwnd, in bytes.
  std::uint64_t link_ = 0;
  double path_bytes_ = 0;  ///< The bytes that a long path itself holds at the present rate.
  std::uint32_t window_;
  bool slow_start_ = true;
  double slow_start_end_ = std::numeric_limits<double>::infinity();
  Time round_start_{};
  std::optional<Duration> least_;  ///< The smallest round trip of this round.
  std::uint32_t samples_ = 0, lossy_rounds_ = 0;
  /// The numbers of bytes that were acknowledged and lost in this round.
  double acknowledged_ = 0, lost_ = 0;
  // The state of DCQCN.
  double marked_ = 1;  ///< The estimated share of marked traffic (alpha).
  std::optional<Time> notified_, cut_;
  double recover_to_ = 0;  ///< The window before the latest cut, in bytes.
  std::uint32_t recovery_rounds_ = 0;
};

}  // namespace rdmc::roce
