// How many bytes may be under way: Swift's delay-based control (Kumar et al., SIGCOMM 2020), without its
// pacing below one packet. It steers the round trip to a target: additive increase below it, at most one
// multiplicative decrease per round trip above. A lost packet says nothing here unless many are lost; a
// timeout does (with selective repeat, the second in a row once a round trip is known). Where switches mark
// instead of dropping, the peer's congestion notifications cut the window as DCQCN cuts its rate.
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

  /// At most Options::window_bytes, which is what the peer's buffer holds, and on a long path what that
  /// holds.
  std::uint32_t window() const { return window_; }
  /// How many bytes our own host's link carries in a second; 0 if that is not known.
  void set_link(std::uint64_t bytes_per_second) { link_ = bytes_per_second; }
  /// That kTargetBytes take on our own host's link, kMostLinkTime at most; 0 if it is not known.
  Duration link_time() const;

  /// `bytes` were newly acknowledged. `rtt` if this told a round trip, `smoothed` the estimate so far;
  /// `limited`: the window, not the application, held transmission back.
  void on_acknowledge(std::optional<Duration> rtt, const RoundTrip& path, std::uint32_t bytes, bool limited,
                      Time now);
  /// `packets` were found lost (go-back-N: 1 for each gap, not what is sent again).
  void on_loss(std::uint32_t packets);
  void on_timeout();
  /// The peer received marked packets. At most one cut per round trip.
  void on_notification(const RoundTrip& path, Time now);

  /// The round trip that is steered to at the present window, on a path that is not longer itself.
  Duration target() const;

 private:
  /// The round trip that is steered to on this path.
  Duration aim_on(const RoundTrip& path) const;
  void end_round(Duration aim, const RoundTrip& path, Time now);
  void measure_path(const RoundTrip& path, Time now);
  void scale(double factor);
  void clamp();

  Options options_;
  double bytes_;  ///< Swift's cwnd
  std::uint64_t link_ = 0;
  double path_bytes_ = 0;  ///< that a long path holds at the rate that it carries
  std::uint32_t window_;
  bool slow_start_ = true;
  double slow_start_end_ = std::numeric_limits<double>::infinity();
  Time round_start_{};
  std::optional<Duration> least_;  ///< of this round's samples
  std::uint32_t samples_ = 0, lossy_rounds_ = 0;
  double acknowledged_ = 0, lost_ = 0;  ///< bytes in this round
  // DCQCN.
  double marked_ = 1;  ///< the estimated share of marked traffic (alpha)
  std::optional<Time> notified_, cut_;
  double recover_to_ = 0;  ///< the window before the cut
  std::uint32_t recovery_rounds_ = 0;
};

}  // namespace rdmc::roce
