// Measures a lower limit for the time of a broadcast on one host: the time of its copies alone, on all cores,
// with no protocol and no switches between processes. Each block is copied for all members while it is in the
// cache. Every member has its own buffer of the message's size, which is touched beforehand. Prints one JSON
// object. Exit status: 0, 1 (usage) or 2 (no memory).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "apps/units/option_values.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/shm/copy.hpp"
#include "dataplane/memory/arena.hpp"

namespace {

constexpr std::size_t kBlock = 1 << 20;

/// Copies one broadcast to all `targets`. Returns the time in seconds.
double copy_all(std::span<const std::byte> source, std::span<rdmc::memory::Arena> targets) {
  std::atomic<std::size_t> next = 0;
  const std::size_t copies = (source.size() + kBlock - 1) / kBlock * targets.size();
  const auto work = [&] {
    for (std::size_t copy = next++; copy < copies; copy = next++) {
      const std::size_t at = copy / targets.size() * kBlock;
      const auto block = source.subspan(at, std::min(kBlock, source.size() - at));
      const auto target = targets[copy % targets.size()].bytes().subspan(at, block.size());
      rdmc::fabric::shm::copy_past_cache(target, block);
    }
  };
  const rdmc::Time start = rdmc::monotonic_now();
  {
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) others.emplace_back(work);
    work();
  }
  return (rdmc::monotonic_now() - start).seconds();
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t size = 256 << 20;
  std::uint32_t members = 4, iterations = 7;
  CLI::App app{"The copies of a broadcast on one host and nothing else."};
  app.add_option("--members", members, "the root included")->check(CLI::Range(2U, 64U));
  app.add_option("--size", size, "bytes of a message (K, M, G allowed)")->transform(rdmc::size_value());
  app.add_option("--iterations", iterations, "timed ones, after two to warm up")
      ->check(CLI::Range(1U, 1000U));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  const auto source = rdmc::memory::Arena::make_shared(size);
  std::vector<rdmc::memory::Arena> targets;
  for (std::uint32_t i = 1; i < members && source; ++i) {
    auto target = rdmc::memory::Arena::make(size);
    if (!target) break;
    targets.push_back(std::move(*target));
  }
  if (targets.size() + 1 != members) {
    std::fputs("rdmc_copy_limit: not enough memory\n", stderr);
    return 2;
  }
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i < iterations + 2; ++i) {
    const double took = copy_all(source->bytes().first(size), targets);
    if (i >= 2) seconds.push_back(took);
  }
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2];
  const nlohmann::ordered_json json{{"members", members},
                                    {"size_bytes", size},
                                    {"iterations", iterations},
                                    {"median_seconds", median},
                                    {"goodput_gbps", static_cast<double>(size) * 8 / median / 1e9}};
  std::puts(json.dump().c_str());
  return 0;
}
