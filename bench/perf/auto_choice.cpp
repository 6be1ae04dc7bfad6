#include "bench/perf/auto_choice.hpp"

#include <algorithm>

#include "bench/perf/run.hpp"
#include "dataplane/relay/block_size_search.hpp"
#include "dataplane/relay/path_fit.hpp"

namespace rdmc::perf {
namespace {

constexpr std::uint32_t kProbeIterations = 5;
/// The most bytes that one member sends in one trial. A trial has at least one message.
constexpr std::uint64_t kTrialBytes = 256U << 20;

Result<double> median_seconds(const Options& run) {
  Rendezvous* const meet = Rendezvous::make(run.members);
  if (meet == nullptr) return fail(Errc::resource_limit, "no shared memory");
  if (auto done = run_members(run, *meet); !done) return std::unexpected(done.error());
  return percentile(seconds_taken(run, *meet), 0.5);
}

/// Improves the block size by trials. The first trial uses the model's choice.
Result<void> improve_block_size(Options& options) {
  relay::BlockSizeSearch search(options.block_bytes);
  Options run = options;
  const std::uint64_t affordable = kTrialBytes / std::max<std::uint64_t>(options.size_bytes, 1);
  run.iterations = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(affordable, 1, 4 * kProbeIterations));
  while (const auto trial = search.trial()) {
    run.block_bytes = *trial;
    const auto seconds = median_seconds(run);
    if (!seconds) return std::unexpected(seconds.error());
    search.took(*seconds);
  }
  options.block_bytes = search.best();
  return {};
}

}  // namespace

Result<void> choose(Options& options, bool algorithm) {
  if (!algorithm && options.block_bytes != 0) return {};
  relay::PathFit fit({});
  for (const relay::Probe& probe : relay::kProbes) {
    if (probe.members > options.members) continue;
    Options run = options;
    run.members = probe.members;
    run.size_bytes = probe.bytes;
    run.block_bytes = probe.block_bytes;
    run.algorithm = probe.algorithm;
    run.racks = {};
    run.iterations = kProbeIterations;
    const auto seconds = median_seconds(run);
    if (!seconds) return std::unexpected(seconds.error());
    fit.observe(probe, *seconds);
  }
  const auto choice = relay::choose(
      {options.members, options.racks, options.size_bytes}, fit.parameters(),
      {.algorithm = algorithm ? std::nullopt : std::optional(options.algorithm),
       .block_bytes = options.block_bytes == 0 ? std::nullopt : std::optional(options.block_bytes)});
  const bool given = options.block_bytes != 0;
  options.algorithm = choice.algorithm;
  options.block_bytes = choice.block_bytes;
  return given ? Result<void>{} : improve_block_size(options);
}

}  // namespace rdmc::perf
