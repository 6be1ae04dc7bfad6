#include "apps/sim/auto_choice.hpp"

#include "apps/sim/measures.hpp"

namespace rdmc::sim_app {

namespace {

/// The drift in the fluid model (relay::PathParameters::drift). A block that waits for the core delays every
/// further hop.
constexpr double kDriftOfFluid = 4.5;

/// Adds the uplinks to `path`. Packet headers take the same share of an uplink's rate as of a link's rate.
void add_uplinks(relay::PathParameters& path, const ScenarioOptions& options) {
  if (options.racks.all().size() < 2) return;
  path.uplink_bits_per_second =
      static_cast<double>(uplink_rate(options)) * path.bits_per_second / static_cast<double>(options.rate);
}

}  // namespace

relay::PathParameters known_paths(const ScenarioOptions& options) {
  relay::PathParameters path = relay::kUnmeasured;
  path.bits_per_second = static_cast<double>(options.rate);
  if (options.model == Model::packets) {
    path.hop_seconds = 2 * options.link_delay.seconds();
    return path;
  }
  // In the fluid network, connections have no congestion windows that grow. On average, a block waits for
  // half of the jitter in the network, and again for half of the jitter at the core.
  const BlockModel& blocks = options.blocks;
  path.core_seconds = (blocks.relay_cost + blocks.jitter / 2).seconds();
  path.hop_seconds = (blocks.latency + blocks.jitter / 2).seconds() + path.core_seconds;
  path.block_seconds = 0;
  path.drift = path.drift_of_pairs = kDriftOfFluid;
  path.first_window_bytes = 0;
  path.grant_hops = 2;
  path.writes_in_flight = blocks.writes_in_flight;
  return path;
}

void choose(ScenarioOptions& options, const relay::Fixed& fixed) {
  if (fixed.algorithm && fixed.block_bytes) return;
  auto path = known_paths(options);
  add_uplinks(path, options);
  const auto choice = relay::choose(
      {.members = options.members, .racks = options.racks, .bytes = options.size_bytes, .is_file = true},
      path, fixed);
  options.algorithm = choice.algorithm;
  options.finds_stragglers = !fixed.algorithm;
  options.block_bytes = choice.block_bytes;
}

}  // namespace rdmc::sim_app
