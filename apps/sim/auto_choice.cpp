#include "apps/sim/auto_choice.hpp"

#include "dataplane/relay/path_fit.hpp"

namespace rdmc::sim_app {

relay::PathParameters probe_paths(const ScenarioOptions& options) {
  const auto rate = static_cast<double>(options.rate);
  relay::PathFit fit({.bits_per_second = rate});
  for (const relay::Probe& probe : relay::kProbes) {
    const ScenarioOptions run{.seed = options.seed,
                              .members = probe.members,
                              .size_bytes = probe.bytes,
                              .block_bytes = probe.block_bytes,
                              .algorithm = probe.algorithm,
                              .window_bytes = options.window_bytes,
                              .rate = options.rate,
                              .mtu = options.mtu,
                              .selective_repeat = options.selective_repeat};
    const double seconds = run_bcast(run).virtual_seconds;
    if (seconds > 0) fit.observe(probe, seconds);
  }
  relay::PathParameters path = fit.parameters();
  // Packets' headers weigh as much on an uplink as on a link.
  if (options.racks.all().size() > 1) {
    const auto uplink = static_cast<double>(options.uplink_rate == 0 ? options.rate : options.uplink_rate);
    path.uplink_bits_per_second = uplink * path.bits_per_second / rate;
  }
  return path;
}

void choose(ScenarioOptions& options, Auto what) {
  if (!what.algorithm && !what.block_size) return;
  const auto choice =
      relay::choose({options.members, options.racks, options.size_bytes}, probe_paths(options),
                    {.algorithm = what.algorithm ? std::nullopt : std::optional(options.algorithm),
                     .block_bytes = what.block_size ? std::nullopt : std::optional(options.block_bytes)});
  options.algorithm = choice.algorithm;
  options.block_bytes = choice.block_bytes;
}

}  // namespace rdmc::sim_app
