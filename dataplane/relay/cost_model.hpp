// Predicts the time of a message with each algorithm, so that `auto` can choose. The model has a few
// parameters. A program assumes them before it sends, or a group fits them to the times of its messages
// (path_fit.hpp). Pure (no I/O and no clock); any thread may use it.
//
// A message takes as long as its critical path: a start, some bytes over a link, some blocks that each cost
// a member a fixed time whatever their size, and some hops of latency. If racks have slower uplinks, the
// busiest uplink may take longer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "dataplane/relay/schedule.hpp"

namespace rdmc::relay {

/// The properties of a group's paths.
struct PathParameters {
  /// The rate of a member's link in each direction, counted in bits of messages; > 0.
  double bits_per_second = 1e10;
  /// The rate of a rack's uplink in each direction. 0 if uplinks are no slower than the links behind them.
  double uplink_bits_per_second = 0;
  /// The time that every message takes, however short it is and however few receivers it has.
  double start_seconds = 50e-6;
  double block_seconds = 10e-6;  ///< the time that a block costs a member in addition to its bytes
  /// The time from the end of a block's sending until the receiver passes the block on.
  double hop_seconds = 20e-6;
  /// The time for which a block keeps a core of a member busy while the link continues to send. The slower
  /// one of the core and the link determines the pace.
  double core_seconds = 0;
  /// The number of block times that each step costs until all members are busy. It is 1 if all members
  /// proceed at the same pace. It is larger if blocks of several sources reach a receiver at the same time.
  /// This happens more often if two members share a vertex (a pair), and less often in messages of a few
  /// blocks. The values were measured in the simulator. The circulant graph has no pairs.
  double drift = 2.5, drift_of_pairs = 4, drift_of_trees = 1.4;
  /// The number of bytes that a new connection sends before the first answer arrives. This number doubles in
  /// each round trip. 0 if the windows of the connections have already grown so much that they limit nothing.
  double first_window_bytes = 0;
  /// The size of a receiver's buffer. A window of this size grows by at most this size in each round trip.
  double buffer_bytes = 1 << 20;
  /// The number of hops until a member may receive more than its first block. It is 0 if the members grant
  /// their memory in advance. It is 2 if they receive the message's length with their first block.
  double grant_hops = 0;
  /// The largest number of blocks in flight on a long path. 0 if there is no limit.
  double writes_in_flight = 0;
};

/// True if the uplinks are slower than the members' links. A member behind such an uplink falls behind the
/// other members of its group, as a straggler does.
inline bool has_slow_uplinks(const PathParameters& path) {
  return path.uplink_bits_per_second > 0 && path.uplink_bits_per_second < path.bits_per_second;
}

/// The assumption of a file's sender about its paths before it has measured anything: links of 2 Gb/s, a core
/// for each process, and new connections. With the plan for this rate, most transfers over links of 400 Mb/s
/// or 10 Gb/s take at most 2 % longer than with the plan for the true rate (docs/benchmarks.md).
inline constexpr PathParameters kUnmeasured{
    .bits_per_second = 2e9, .block_seconds = 1e-6, .first_window_bytes = 128 << 10, .writes_in_flight = 64};

/// The members, racks and bytes of one message. If the racks are not known, all members count as one rack.
struct MessageShape {
  std::uint32_t members = 2;
  Racks racks{};
  std::uint64_t bytes = 0;
  bool racks_are_hosts = false;  ///< the members of a rack reach each other through memory
  bool is_file = false;          ///< all members know the length before the message arrives
};

/// The longest path of a message to its last member: bytes over a link, blocks, and hops. All values are 0 if
/// the group has only one member.
struct CriticalPath {
  /// The number of bytes that a link carries in the time that the slowest one of the links, the uplinks and
  /// the cores needs.
  double bytes = 0;
  double blocks = 0;
  double hops = 0;
};
/// Returns the critical path of a plan. The hops include the round trips in which the root's link is idle
/// because the limit of bytes in flight is reached. For a host plan the result is the path between hosts,
/// because steps inside a host are short in comparison. `crossing` is the result of uplink_messages() if the
/// uplinks count, and otherwise 0. If the rate of the uplinks is not known, they are as fast as the links.
CriticalPath critical_path(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes,
                           const PathParameters& path, double crossing = 0);

/// The number of bytes that cross the busiest uplink in one direction, divided by the length of the message.
/// 0 if there is one rack.
double uplink_messages(Algorithm algorithm, const MessageShape& message);

/// The time of a message with this critical path.
double seconds_of(const CriticalPath& way, const PathParameters& path);

/// The predicted time from the root's first send to the last delivery. The uplinks count if their rate is
/// known.
double cost_seconds(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes,
                    const PathParameters& path);

/// The range of block sizes among which `auto` chooses: powers of two. choose() also considers some sizes
/// between the powers of two above 128 KB.
inline constexpr std::uint32_t kLeastAutoBlock = 16U << 10, kMostAutoBlock = 2U << 20;

struct Choice {
  Algorithm algorithm = Algorithm::binomial_pipeline;
  std::uint32_t block_bytes = 0;
  double seconds = 0;  ///< the prediction of the model
};
/// Returns the cheapest combination of these algorithms and block sizes. If several combinations are the
/// cheapest, returns the first of them. Neither list may be empty.
Choice cheapest(const MessageShape& message, const PathParameters& path,
                std::span<const Algorithm> algorithms, std::span<const std::uint32_t> block_sizes);

/// The algorithms among which `auto` chooses by default, if the next three lists do not apply.
inline constexpr std::array kAutoAlgorithms{
    Algorithm::binomial_pipeline, Algorithm::binomial_tree, Algorithm::chain,     Algorithm::sequential,
    Algorithm::two_trees,         Algorithm::hybrid,        Algorithm::site_trees};
/// The algorithms among which `auto` chooses for a file.
inline constexpr std::array kFileAlgorithms{
    Algorithm::chain,  Algorithm::circulant,  Algorithm::two_trees, Algorithm::binomial_pipeline,
    Algorithm::hybrid, Algorithm::sequential, Algorithm::site_trees};
/// The algorithms among which `auto` chooses if several members share hosts. With these algorithms, each host
/// receives a block over its link only once.
inline constexpr std::array kHostAlgorithms{Algorithm::host_pipeline, Algorithm::host_trees};
/// The algorithms among which `auto` chooses if all members are on one host. Blocks cannot compete for a
/// link there, because they move through memory.
inline constexpr std::array kOneHostAlgorithms{Algorithm::binomial_pipeline};

/// The parts of a plan that the application has set. `auto` chooses the other parts.
struct Fixed {
  std::optional<Algorithm> algorithm;
  std::optional<std::uint32_t> block_bytes;
};
/// Returns the cheapest plan. If no algorithm is set, the algorithm is from one of the lists above. If no
/// block size is set, the block size is from kLeastAutoBlock to kMostAutoBlock.
Choice choose(const MessageShape& message, const PathParameters& path, const Fixed& fixed);

}  // namespace rdmc::relay
