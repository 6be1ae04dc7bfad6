#include "bench/perf/auto_choice.hpp"

#include <algorithm>
#include <limits>

#include "bench/perf/run.hpp"
#include "dataplane/relay/cost_model.hpp"

namespace rdmc::perf {
namespace {

/// A trial has as many messages as the root sends in this number of bytes, but at least 1 and at most
/// kMostTrialMessages.
constexpr std::uint64_t kTrialBytes = 256U << 20;
constexpr std::uint64_t kMostTrialMessages = 20;
/// A block size is better than another one if a message takes less time by at least this fraction. A smaller
/// difference is chance.
constexpr double kWorthwhile = 0.02;

Result<double> median_seconds(const Options& run) {
  Rendezvous* const meet = Rendezvous::make(run.members);
  if (meet == nullptr) return fail(Errc::resource_limit, "no shared memory");
  if (auto done = run_members(run, *meet); !done) return std::unexpected(done.error());
  return percentile(seconds_taken(run, *meet), 0.5);
}

/// Returns the block size with which a message took the least time.
Result<std::uint32_t> try_block_sizes(Options run) {
  const std::uint64_t affordable = kTrialBytes / std::max<std::uint64_t>(run.size_bytes, 1);
  run.iterations = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(affordable, 1, kMostTrialMessages));
  double least = std::numeric_limits<double>::infinity();
  std::uint32_t best = 0;
  run.block_bytes = relay::kMostAutoBlock;
  while (run.block_bytes > relay::kLeastAutoBlock && run.block_bytes / 2 >= run.size_bytes)
    run.block_bytes /= 2;
  for (; run.block_bytes >= relay::kLeastAutoBlock; run.block_bytes /= 2) {
    const auto seconds = median_seconds(run);
    if (!seconds) return std::unexpected(seconds.error());
    if (*seconds >= least * (1 - kWorthwhile)) continue;
    least = *seconds;
    best = run.block_bytes;
  }
  return best;
}

}  // namespace

Result<void> choose(Options& options, bool algorithm) {
  const bool tries = options.block_bytes == 0;
  if (algorithm)
    options.algorithm =
        relay::choose(
            {options.members, options.racks, options.size_bytes}, relay::kUnmeasured,
            {.algorithm = {}, .block_bytes = tries ? std::nullopt : std::optional(options.block_bytes)})
            .algorithm;
  if (!tries) return {};
  const auto best = try_block_sizes(options);
  if (!best) return std::unexpected(best.error());
  options.block_bytes = *best;
  return {};
}

}  // namespace rdmc::perf
