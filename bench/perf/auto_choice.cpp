#include "bench/perf/auto_choice.hpp"

#include "bench/perf/run.hpp"
#include "dataplane/relay/path_fit.hpp"

namespace rdmc::perf {
namespace {

constexpr std::uint32_t kProbeIterations = 5;

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
    Rendezvous* const meet = Rendezvous::make(run.members);
    if (meet == nullptr) return fail(Errc::resource_limit, "no shared memory");
    if (auto done = run_members(run, *meet); !done) return done;
    fit.observe(probe, percentile(seconds_taken(run, *meet), 0.5));
  }
  const auto choice = relay::choose(
      {options.members, options.racks, options.size_bytes}, fit.parameters(),
      {.algorithm = algorithm ? std::nullopt : std::optional(options.algorithm),
       .block_bytes = options.block_bytes == 0 ? std::nullopt : std::optional(options.block_bytes)});
  options.algorithm = choice.algorithm;
  options.block_bytes = choice.block_bytes;
  return {};
}

}  // namespace rdmc::perf
