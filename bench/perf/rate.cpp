// The test rate: counts many small SENDs in flight on one queue pair. The figure shows the cost of a message
// on each side.
#include <algorithm>
#include <cstring>

#include "bench/perf/endpoint.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::perf {
namespace {

/// The number of SENDs in flight. It is large enough to fill a round trip, and small enough for the cache.
constexpr std::uint32_t kInFlight = 256;
/// The number of SENDs that are posted together, as an application with many messages does.
constexpr std::uint32_t kTogether = 32;
static_assert(kMessagesPerIteration % kTogether == 0);

/// Writes the message's number at its beginning, so that the receiver notices a lost or repeated message.
void number(std::span<std::byte> message, std::uint32_t index) {
  if (message.size() >= sizeof index)
    std::memcpy(message.data(), &index, sizeof index);  // This is compiled without a function call.
  else
    std::memcpy(message.data(), &index, message.size());
}

bool is_numbered(std::span<const std::byte> message, std::uint32_t index) {
  if (message.size() >= sizeof index) return std::memcmp(message.data(), &index, sizeof index) == 0;
  return std::memcmp(message.data(), &index, message.size()) == 0;
}

}  // namespace

Result<void> run_rate(Member& member) {
  const Options& options = member.options();
  Rendezvous& meet = member.meet();
  const bool sender = member.rank() == 0;
  const auto size = static_cast<std::size_t>(options.size_bytes);
  auto made = Endpoint::make(member, std::max<std::size_t>(size, 1) * kReceives);
  if (!made) return std::unexpected(made.error());
  Endpoint& endpoint = *made;
  fabric::QueuePair& queue_pair = *endpoint.queue_pair;
  const auto slot = [&](std::uint64_t index) {
    return endpoint.message.subspan(index % kReceives * size, size);
  };
  for (std::uint32_t i = 0; i < kReceives && !sender; ++i) {
    if (auto posted = queue_pair.post_receive({.work_id = i, .bytes = slot(i)}); !posted) return posted;
  }
  if (auto connected = endpoint.connect(member); !connected) return connected;

  std::array<fabric::Completion, 64> completions;
  for (std::uint32_t i = 0; i < kWarmUpIterations + options.iterations; ++i) {
    if (!member.barrier()) return stopped(endpoint);
    if (i >= kWarmUpIterations) member.start_account();
    if (sender) meet.started_ns[i] = monotonic_now().ns;
    std::uint32_t begun = 0, done = 0;
    bool broken = false, corrupt = false;
    const auto step = [&] {
      while (sender && begun < kMessagesPerIteration && begun + kTogether <= done + kInFlight) {
        for (const std::uint32_t end = begun + kTogether; begun < end; ++begun) {
          number(slot(begun), begun);
          broken = broken || !queue_pair.post_send({.work_id = begun, .bytes = slot(begun)});
        }
      }
      const std::size_t count = queue_pair.poll_completions(completions);
      for (const auto& completion : std::span(completions).first(count)) {
        broken = broken || completion.status != fabric::WorkStatus::success;
        if (!sender && !broken) {
          corrupt = corrupt || completion.byte_count != size || !is_numbered(slot(completion.work_id), done);
          broken =
              !queue_pair.post_receive({.work_id = completion.work_id, .bytes = slot(completion.work_id)});
        }
        ++done;
      }
      return done == kMessagesPerIteration || broken;
    };
    if (!member.run_until(step) || broken) return stopped(endpoint);
    if (!sender) record_finish(meet, i);
    if (i >= kWarmUpIterations) member.end_account();
    if (corrupt) return fail(Errc::corrupt, "a message was lost, doubled or changed");
  }
  member.barrier();
  return {};
}

}  // namespace rdmc::perf
