// How long a message takes by each algorithm, so that `auto` can choose: a model of a few parameters, which
// are fitted to what former messages or a short probe took (path_fit.hpp). Pure; any thread.
//
// A message takes as long as its critical path: a start, some bytes over a link, some blocks that each cost a
// member a moment whatever their size, and some hops of latency. With racks behind slower uplinks, the
// busiest uplink may take longer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/relay/schedule.hpp"

namespace rdmc::relay {

/// What a group's paths are like.
struct PathParameters {
  double bits_per_second = 1e10;      ///< of a member's link each way, of message bytes; > 0
  double uplink_bits_per_second = 0;  ///< of a rack's uplink each way; 0: no slower than what is behind it
  double start_seconds = 50e-6;       ///< that a message takes however short it is and few its receivers
  double block_seconds = 10e-6;       ///< that a block costs a member beside its bytes
  double hop_seconds = 20e-6;         ///< from the end of a block's sending until it is passed on
  /// That a block keeps a core of a member busy while the link goes on: the slower of both sets the pace.
  double core_seconds = 0;
  /// How many block times each step costs in which a plan fills itself: 1 if all members go in step. Off the
  /// beat, blocks of several sources meet at a receiver; with pairs they do so more often. Messages of a few
  /// blocks drift less. Measured in the simulator. The circulant graph has no pairs.
  double drift = 2.5, drift_of_pairs = 4, drift_of_trees = 1.4;
  /// Bytes that a new connection sends until the first answer has come; each round trip doubles them. 0: the
  /// connections have carried so much that their windows hold nothing up.
  double first_window_bytes = 0;
  /// What a receiver's buffer holds. A window of this size grows by no more than that in each round trip.
  double buffer_bytes = 1 << 20;
  /// Hops until a member may get more than its first block: 0 if the members grant their memory beforehand,
  /// and 2 if they hear of the message's length with that block.
  double grant_hops = 0;
  /// Blocks that fill a long path at most. 0: any number.
  double writes_in_flight = 0;
};

/// Whoever is behind such an uplink lags behind the others of its group, as a straggler would.
inline bool has_slow_uplinks(const PathParameters& path) {
  return path.uplink_bits_per_second > 0 && path.uplink_bits_per_second < path.bits_per_second;
}

/// A file's sender assumes this of its paths before it has measured anything: links of 2 Gb/s, a core for
/// each process, and new connections. Blocks for that rate cost links of 400 Mb/s and of 10 Gb/s about 1 %.
inline constexpr PathParameters kUnmeasured{
    .bits_per_second = 2e9, .block_seconds = 1e-6, .first_window_bytes = 128 << 10, .writes_in_flight = 64};

/// What one message lies in: members, racks (nothing known: all in one), bytes.
struct MessageShape {
  std::uint32_t members = 2;
  Racks racks{};
  std::uint64_t bytes = 0;
  bool racks_are_hosts = false;  ///< whose members reach each other through memory
  bool is_file = false;          ///< all members know its length before it comes
};

/// The longest way to the last member: message bytes over a link, blocks, hops. Nothing for one member.
struct CriticalPath {
  double bytes = 0;
  double blocks = 0;
  double hops = 0;
};
/// The hops include the round trips in which the root's link stands idle, since what may be in flight is in
/// flight. Of the host plans it is the way between hosts, beside which steps inside one are short.
CriticalPath critical_path(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes,
                           const PathParameters& path);

/// How many messages' bytes cross the busiest uplink in one direction; 0 with one rack.
double uplink_messages(Algorithm algorithm, const MessageShape& message);

/// From the root's send to the last delivery.
double cost_seconds(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes,
                    const PathParameters& path);

/// Blocks that `auto` chooses among: powers of two, and beyond 128 KB some between them for a whole message.
inline constexpr std::uint32_t kLeastAutoBlock = 16U << 10, kMostAutoBlock = 2U << 20;

struct Choice {
  Algorithm algorithm = Algorithm::binomial_pipeline;
  std::uint32_t block_bytes = 0;
  double seconds = 0;  ///< by the model
};
/// The cheapest of these algorithms and block sizes (neither empty); of equals the first.
Choice cheapest(const MessageShape& message, const PathParameters& path,
                std::span<const Algorithm> algorithms, std::span<const std::uint32_t> block_sizes);

/// What `auto` chooses among where members of a rack are no nearer to each other than their uplink makes
/// them.
inline constexpr std::array kAutoAlgorithms{
    Algorithm::binomial_pipeline, Algorithm::binomial_tree, Algorithm::chain,     Algorithm::sequential,
    Algorithm::two_trees,         Algorithm::hybrid,        Algorithm::site_trees};
/// … where it is a file, …
inline constexpr std::array kFileAlgorithms{
    Algorithm::chain,  Algorithm::circulant,  Algorithm::two_trees, Algorithm::binomial_pipeline,
    Algorithm::hybrid, Algorithm::sequential, Algorithm::site_trees};
/// … where several members share hosts, of which each takes a block over its link once, …
inline constexpr std::array kHostAlgorithms{Algorithm::host_pipeline, Algorithm::host_trees};
/// … and where all are on one host, whose memory is no link that blocks could meet on.
inline constexpr std::array kOneHostAlgorithms{Algorithm::binomial_pipeline};

/// What is given; the rest is `auto`.
struct Fixed {
  std::optional<Algorithm> algorithm;
  std::optional<std::uint32_t> block_bytes;
};
/// The cheapest of what there is to choose among, and of blocks from kLeastAutoBlock to kMostAutoBlock, as
/// far as they are not given.
Choice choose(const MessageShape& message, const PathParameters& path, const Fixed& fixed);

}  // namespace rdmc::relay
