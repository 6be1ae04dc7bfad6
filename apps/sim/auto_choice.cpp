#include "apps/sim/auto_choice.hpp"

#include "apps/sim/measures.hpp"
#include "dataplane/relay/path_fit.hpp"

namespace rdmc::sim_app {

relay::PathParameters probe_paths(const ScenarioOptions& options) {
  const auto rate = static_cast<double>(options.rate);
  relay::PathFit fit({.bits_per_second = rate});
  for (const relay::Probe& probe : relay::kProbes) {
    ScenarioOptions run{.model = options.model,
                        .seed = options.seed,
                        .members = probe.members,
                        .size_bytes = probe.bytes,
                        .block_bytes = probe.block_bytes,
                        .algorithm = probe.algorithm,
                        .window_bytes = options.window_bytes,
                        .rate = options.rate,
                        .mtu = options.mtu,
                        .link_delay = options.link_delay,
                        .selective_repeat = options.selective_repeat};
    run.blocks.latency = options.blocks.latency;
    run.blocks.relay_cost = options.blocks.relay_cost;
    run.blocks.jitter = options.blocks.jitter;
    run.blocks.writes_in_flight = options.blocks.writes_in_flight;
    const double seconds = run_bcast(run).virtual_seconds;
    if (seconds > 0) fit.observe(probe, seconds);
  }
  return fit.parameters();
}

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

void choose(ScenarioOptions& options, Auto what) {
  if (!what.algorithm && !what.block_size) return;
  auto path = what.probes ? probe_paths(options) : known_paths(options);
  add_uplinks(path, options);
  const auto choice = relay::choose(
      {.members = options.members, .racks = options.racks, .bytes = options.size_bytes, .is_file = true},
      path,
      {.algorithm = what.algorithm ? std::nullopt : std::optional(options.algorithm),
       .block_bytes = what.block_size ? std::nullopt : std::optional(options.block_bytes)});
  options.algorithm = choice.algorithm;
  options.finds_stragglers = what.algorithm;
  options.block_bytes = choice.block_bytes;
}

}  // namespace rdmc::sim_app
