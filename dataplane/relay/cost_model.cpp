#include "dataplane/relay/cost_model.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <map>

namespace rdmc::relay {

namespace {

/// The critical path of a plan in which a block passes `hops` hops, and in which the last member waits for
/// `fill` block times in addition to those of the message's own blocks.
CriticalPath pipelined(double fill, double hops, std::uint64_t bytes, std::uint32_t block_bytes) {
  const auto whole = static_cast<double>(bytes);
  return {.bytes = whole + fill * std::min(whole, static_cast<double>(block_bytes)),
          .blocks = static_cast<double>(block_count(bytes, block_bytes)) + fill,
          .hops = hops};
}

/// The additional block times of a plan whose last member waits for `steps` steps.
double fill_of(double steps, std::uint64_t blocks, double most_drift) {
  return steps * std::min(most_drift, 1 + static_cast<double>(blocks) / 8);
}

/// Returns the additional block times, like fill_of(), but for a plan with the fewest steps. The more blocks
/// there are, the further the members of such a plan get out of step.
double longer_fill_of(double steps, std::uint64_t blocks, double drift) {
  return fill_of(steps, blocks, drift + (drift - 1) * static_cast<double>(blocks) / 300);
}

/// The largest number of hops of a block in a plan with the fewest steps. A single block goes down a binomial
/// tree. If there are many blocks, each member receives some of them one hop later. Members that share a
/// vertex receive some blocks one more hop later.
double hops_of(std::uint32_t members, std::uint64_t blocks, bool has_pairs) {
  const int levels = std::bit_width(members) - 1;
  if (blocks == 1 || members == 2) return levels;
  return levels + (has_pairs && members > 3 && !std::has_single_bit(members) ? 2 : 1);
}

/// The additional block times of a binomial pipeline. Precondition: members >= 2.
double fill_of(std::uint32_t members, std::uint64_t blocks, const PathParameters& path) {
  return longer_fill_of(static_cast<double>(depth_of(members) - 1), blocks,
                        std::has_single_bit(members) ? path.drift : path.drift_of_pairs);
}

CriticalPath path_through(const Racks& racks, std::uint64_t bytes, std::uint32_t block_bytes,
                          const PathParameters& path) {
  double fill = 0, hops = 0;
  for (const Rack& rack : racks.all()) {
    const double inside =
        rack.members == 1 ? -1 : fill_of(rack.members, block_count(bytes, block_bytes), path);
    fill = std::max(fill, static_cast<double>(rack.start) + inside);
    hops = std::max(hops, static_cast<double>(rack.start + depth_of(rack.members)));
  }
  return pipelined(fill, hops, bytes, block_bytes);
}

/// The critical path with two trees in each rack. The trees of a rack wait for the trees of the racks before
/// it. A block needs two steps for each hop.
CriticalPath path_through_sites(const MessageShape& message, std::uint32_t block_bytes,
                                const PathParameters& path) {
  const auto steps = static_cast<double>(TwoTrees(Rank{0}, message.members, message.racks).steps(1)) - 1;
  const double fill = fill_of(steps, block_count(message.bytes, block_bytes), path.drift_of_trees);
  return pipelined(fill, steps / 2 + 1, message.bytes, block_bytes);
}

/// The critical path of a host plan. Inside a host, a block takes hops and no time on a link.
CriticalPath path_between(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes,
                          const PathParameters& path) {
  const auto hosts = static_cast<std::uint32_t>(message.racks.all().size());
  const auto blocks = block_count(message.bytes, block_bytes);
  std::uint32_t most = 1;
  for (const Rack& host : message.racks.all()) most = std::max(most, host.members);
  if (hosts == 1) return {.hops = static_cast<double>(most - 1)};
  const auto steps = static_cast<double>(depth_of(hosts) - 1);
  const double fill = algorithm == Algorithm::host_trees ? fill_of(2 * steps, blocks, path.drift_of_trees)
                                                         : fill_of(hosts, blocks, path);
  const double hops = algorithm == Algorithm::host_trees ? steps + 1 : hops_of(hosts, blocks, true);
  return pipelined(fill, hops + most - 1, message.bytes, block_bytes);
}

/// The critical path of a plan in which the root sends the message `times` times.
CriticalPath repeated(double times, double hops, std::uint64_t bytes, std::uint32_t block_bytes) {
  return {.bytes = times * static_cast<double>(bytes),
          .blocks = times * static_cast<double>(block_count(bytes, block_bytes)),
          .hops = hops};
}

bool repeats(Algorithm algorithm) {
  return algorithm == Algorithm::sequential || algorithm == Algorithm::binomial_tree;
}

/// The number of members to which the root sends at the same time.
double first_destinations(Algorithm algorithm, std::uint32_t members, std::uint64_t blocks) {
  const auto others = static_cast<double>(members - 1), depth = static_cast<double>(depth_of(members));
  switch (algorithm) {
    case Algorithm::chain:
    case Algorithm::hybrid: return 1;
    case Algorithm::sequential: return others;
    case Algorithm::binomial_tree: return depth;
    case Algorithm::two_trees:
    case Algorithm::site_trees:
    case Algorithm::host_trees: return std::min({2.0, others, static_cast<double>(blocks)});
    default: return std::min(depth, static_cast<double>(blocks));
  }
}

/// Returns the total time for which the root's link is idle because the limit of bytes in flight is reached.
/// The unit is the time of a hop. A window opens with the answer to each packet, one round trip after the
/// packet has left. A write ends with the answer to the last packet of its block.
double idle_hops(double destinations, double bytes, double block_bytes, const PathParameters& path) {
  if (path.hop_seconds == 0) return 0;
  const double bytes_per_second = path.bits_per_second / 8;
  const double round_trip = 2 * path.hop_seconds, of_block = round_trip + block_bytes / bytes_per_second;
  const double link = bytes_per_second * of_block;
  const double most = path.writes_in_flight == 0 ? link : std::min(link, path.writes_in_flight * block_bytes);
  const double open = std::min(most, bytes_per_second * round_trip);
  double window = path.first_window_bytes == 0 ? open : path.first_window_bytes * destinations;
  double idle = 0;
  for (; window < open && window < bytes; window += std::min(window, path.buffer_bytes * destinations)) {
    bytes -= window;
    idle += round_trip - window / bytes_per_second;
  }
  if (bytes > most) idle += std::floor(bytes / most) * (link - most) / bytes_per_second;
  return idle / path.hop_seconds;
}

/// Counts the blocks that cross the uplink of each rack in each direction while all members are busy. The
/// unit is a message: 1 means that every block of a message crosses the uplink once.
class Crossings {
 public:
  explicit Crossings(const Racks& racks) : racks_(racks), in_(racks.all().size()), out_(in_.size()) {}

  void count(Rank from, Rank to, double messages) {
    const std::size_t source = racks_.index_of(value_of(from)), destination = racks_.index_of(value_of(to));
    if (source == destination) return;
    out_[source] += messages;
    in_[destination] += messages;
  }
  double most() const { return std::max(std::ranges::max(in_), std::ranges::max(out_)); }

 private:
  const Racks& racks_;
  std::vector<double> in_, out_;
};

CriticalPath path_of_steps(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes,
                           const PathParameters& path) {
  const std::uint64_t blocks = block_count(message.bytes, block_bytes);
  const auto depth = static_cast<double>(depth_of(message.members));
  const auto others = static_cast<double>(message.members - 1);
  switch (algorithm) {
    case Algorithm::binomial_tree:
      return repeated(depth, hops_of(message.members, 1, false), message.bytes, block_bytes);
    case Algorithm::sequential:
      // In the simulator, messages that do not fit the first windows take one hop more than the single step.
      // The reason is not known.
      return repeated(others, static_cast<double>(message.bytes) <= path.first_window_bytes ? 1 : 2,
                      message.bytes, block_bytes);
    case Algorithm::site_trees:
      if (message.racks.all().size() > 1) return path_through_sites(message, block_bytes, path);
      [[fallthrough]];
    case Algorithm::two_trees:
      return pipelined(fill_of(2 * depth - 2, blocks, path.drift_of_trees), depth, message.bytes,
                       block_bytes);
    case Algorithm::circulant:
      return pipelined(longer_fill_of(depth - 1, blocks, path.drift), hops_of(message.members, blocks, false),
                       message.bytes, block_bytes);
    case Algorithm::chain: return pipelined(others - 1, others, message.bytes, block_bytes);
    case Algorithm::hybrid:
      if (message.racks.is_known()) return path_through(message.racks, message.bytes, block_bytes, path);
      break;
    case Algorithm::host_pipeline:
    case Algorithm::host_trees:
      if (message.racks.are_shared()) return path_between(algorithm, message, block_bytes, path);
      if (algorithm == Algorithm::host_trees)
        return path_of_steps(Algorithm::two_trees, message, block_bytes, path);
      break;
    case Algorithm::binomial_pipeline: break;
  }
  return pipelined(fill_of(message.members, blocks, path), hops_of(message.members, blocks, true),
                   message.bytes, block_bytes);
}

}  // namespace

CriticalPath critical_path(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes,
                           const PathParameters& path, double crossing) {
  if (message.members == 1) return {};
  CriticalPath way = path_of_steps(algorithm, message, block_bytes, path);
  const std::uint64_t blocks = block_count(message.bytes, block_bytes);
  if (blocks > 1 || first_source_needs_length(algorithm)) way.hops += path.grant_hops;
  // A member's second tree starts later, because the members above it receive the message's length in their
  // own first tree.
  const bool is_trees = algorithm == Algorithm::two_trees || algorithm == Algorithm::site_trees ||
                        algorithm == Algorithm::host_trees;
  if (blocks > 1 && is_trees)
    way.hops += path.grant_hops * static_cast<double>(depth_of(message.members)) / 6;
  double destinations = first_destinations(algorithm, message.members, blocks);
  auto sent = static_cast<double>(message.bytes);
  if (repeats(algorithm)) {
    sent *= destinations;
    // The root sends each block to all of these members, one after another. Nevertheless, the model counts
    // the windows of their connections as one window if there are several blocks.
    if (blocks > 1) destinations = 1;
  }
  const auto one_block = static_cast<double>(std::min<std::uint64_t>(block_bytes, message.bytes));
  const double idle = idle_hops(destinations, sent, one_block, path);
  // The connections of members that pass blocks on are new, too. A block that is larger than the windows of
  // these connections waits at each hop.
  if (!repeats(algorithm) && way.hops > 1)
    way.hops += (way.hops - 1) * idle_hops(1, one_block, one_block, path);
  // In the hybrid, the windows of the connections between racks grow before those of the connections inside
  // the racks. So the idle time counts twice.
  way.hops += algorithm == Algorithm::hybrid && message.racks.is_known() ? 2 * idle : idle;
  // The uplink carries its share of the blocks one after another. Before and after the uplink, a block of a
  // pipeline takes its usual time.
  const auto bytes = static_cast<double>(message.bytes);
  const double fill = repeats(algorithm) ? 0 : std::max(way.bytes - bytes, 0.0);
  const double slower =
      path.uplink_bits_per_second == 0 ? 1 : path.bits_per_second / path.uplink_bits_per_second;
  const double core_bytes = static_cast<double>(blocks) * path.core_seconds * path.bits_per_second / 8;
  way.bytes = std::max({way.bytes, core_bytes, crossing == 0 ? 0 : crossing * bytes * slower + fill});
  return way;
}

double uplink_messages(Algorithm algorithm, const MessageShape& message) {
  if (message.racks.all().size() < 2) return 0;
  Crossings crossings(message.racks);
  for (std::uint32_t rank = 1; rank < message.members; ++rank) {
    const Schedule member(algorithm, Rank{rank}, message.members, message.racks);
    if (const auto sources = member.sources(); sources.size() == 1) {
      crossings.count(sources[0], member.rank(), 1);
      continue;
    }
    // In the binomial pipeline, the roles of the members repeat after two rounds. A round has one step for
    // each dimension of the hypercube, so two rounds have at most `period` steps. The steps that are counted
    // come after the start of a message of kMaxBlocks blocks, and long before the end of this message.
    const std::uint64_t period = 2 * depth_of(message.members);
    const std::uint64_t begin = member.steps(1) + 4 * period;
    std::uint64_t received = 0;
    std::map<Rank, std::uint64_t> from;
    for (std::uint64_t step = begin; step < begin + 8 * period; ++step) {
      if (const auto receive = member.at(step, kMaxBlocks).receive) ++from[receive->peer], ++received;
    }
    for (const auto& [source, blocks] : from)
      crossings.count(source, member.rank(), static_cast<double>(blocks) / static_cast<double>(received));
  }
  return crossings.most();
}

double seconds_of(const CriticalPath& way, const PathParameters& path) {
  return path.start_seconds + way.bytes * 8 / path.bits_per_second + way.blocks * path.block_seconds +
         way.hops * path.hop_seconds;
}

namespace {

/// `crossing` is an argument of critical_path().
double cost_over(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes,
                 const PathParameters& path, double crossing) {
  if (message.members == 1) return 0;
  return seconds_of(critical_path(algorithm, message, block_bytes, path, crossing), path);
}

double crossing_of(Algorithm algorithm, const MessageShape& message, const PathParameters& path) {
  return path.uplink_bits_per_second == 0 ? 0 : uplink_messages(algorithm, message);
}

}  // namespace

double cost_seconds(Algorithm algorithm, const MessageShape& message, std::uint32_t block_bytes,
                    const PathParameters& path) {
  return cost_over(algorithm, message, block_bytes, path, crossing_of(algorithm, message, path));
}

Choice cheapest(const MessageShape& message, const PathParameters& path,
                std::span<const Algorithm> algorithms, std::span<const std::uint32_t> block_sizes) {
  assert(!algorithms.empty() && !block_sizes.empty());
  std::optional<Choice> best;
  for (const Algorithm algorithm : algorithms) {
    const double crossing = crossing_of(algorithm, message, path);
    for (const std::uint32_t block_bytes : block_sizes) {
      const double seconds = cost_over(algorithm, message, block_bytes, path, crossing);
      if (!best || seconds < best->seconds) best = Choice{algorithm, block_bytes, seconds};
    }
  }
  return *best;
}

namespace {

/// A larger block is preferred if the message then takes longer by at most this fraction. With larger blocks,
/// the members get out of step less often.
constexpr double kWorthOfLargerBlocks = 0.003;

}  // namespace

Choice choose(const MessageShape& message, const PathParameters& path, const Fixed& fixed) {
  static constexpr auto kBlockSizes =
      std::to_array<std::uint32_t>({kLeastAutoBlock, 32U << 10, 64U << 10, 128U << 10, 192U << 10, 256U << 10,
                                    384U << 10, 512U << 10, 768U << 10, 1U << 20, kMostAutoBlock});
  std::span<const Algorithm> algorithms = kAutoAlgorithms;
  if (message.is_file) algorithms = kFileAlgorithms;
  if (message.racks_are_hosts && message.racks.are_shared()) algorithms = kHostAlgorithms;
  if (message.racks_are_hosts && message.racks.all().size() == 1) algorithms = kOneHostAlgorithms;
  if (fixed.algorithm) algorithms = std::span(&*fixed.algorithm, 1);
  const std::span<const std::uint32_t> block_sizes =
      fixed.block_bytes ? std::span(&*fixed.block_bytes, 1) : std::span<const std::uint32_t>(kBlockSizes);
  Choice choice = cheapest(message, path, algorithms, block_sizes);
  const double most_seconds = (1 + kWorthOfLargerBlocks) * choice.seconds;
  for (const std::uint32_t block_bytes : block_sizes) {
    if (block_bytes <= choice.block_bytes || choice.block_bytes >= message.bytes) continue;
    const double seconds = cost_seconds(choice.algorithm, message, block_bytes, path);
    if (seconds <= most_seconds) choice = {choice.algorithm, block_bytes, seconds};
  }
  return choice;
}

}  // namespace rdmc::relay
