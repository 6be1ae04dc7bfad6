// The tests unicast and latency: one bare queue pair, used directly. The figures are those of the transport
// itself.
#include "bench/perf/endpoint.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/relay/plan.hpp"

namespace rdmc::perf {

Result<void> run_unicast(Member& member) {
  const Options& options = member.options();
  Rendezvous& meet = member.meet();
  const bool sender = member.rank() == 0;
  auto made = Endpoint::make(member, options.size_bytes);
  if (!made) return std::unexpected(made.error());
  Endpoint& endpoint = *made;
  fabric::QueuePair& queue_pair = *endpoint.queue_pair;
  for (std::uint32_t i = 0; i < kReceives; ++i) {
    if (auto posted = queue_pair.post_receive({.work_id = i, .bytes = {}}); !posted) return posted;
  }
  if (auto connected = endpoint.connect(member); !connected) return connected;
  if (!sender) meet.receiver_key = value_of(endpoint.region->remote_key());
  if (!member.barrier()) return stopped(endpoint);

  const std::uint64_t blocks = relay::block_count(options.size_bytes, options.block_bytes);
  const auto block = [&](std::uint64_t index) {
    const std::uint64_t at = index * options.block_bytes;
    return endpoint.message.subspan(at,
                                    std::min<std::uint64_t>(options.block_bytes, options.size_bytes - at));
  };
  std::array<fabric::Completion, 64> completions;
  for (std::uint32_t i = 0; i < kWarmUpIterations + options.iterations; ++i) {
    if (sender) {
      stamp(member, endpoint.message, i);
    }
    if (!member.barrier()) return stopped(endpoint);
    if (i >= kWarmUpIterations) member.start_account();
    if (sender) meet.started_ns[i] = monotonic_now().ns;
    std::uint64_t begun = 0, done = 0;
    bool broken = false;
    const auto step = [&] {
      const std::uint64_t ahead = std::min(blocks, done + options.writes_in_flight);
      for (; begun < ahead; ++begun) {
        if (!sender) {
          queue_pair.expect_write(endpoint.region->remote_key(), begun * options.block_bytes,
                                  static_cast<std::uint32_t>(block(begun).size()));
        } else if (!queue_pair.post_write({.work_id = begun,
                                           .bytes = block(begun),
                                           .remote_address = begun * options.block_bytes,
                                           .remote_key = RemoteKey{meet.receiver_key.load()},
                                           .immediate = static_cast<std::uint32_t>(begun)})) {
          break;
        }
      }
      const std::size_t count = queue_pair.poll_completions(completions);
      for (const auto& completion : std::span(completions).first(count)) {
        broken = broken || completion.status != fabric::WorkStatus::success;
        if (!broken && !sender)
          broken = !queue_pair.post_receive({.work_id = completion.work_id, .bytes = {}});
        ++done;
      }
      return done == blocks || broken;
    };
    if (!member.run_until(step) || broken) return stopped(endpoint);
    if (!sender) record_finish(meet, i);
    if (i >= kWarmUpIterations) member.end_account();
    if (!sender && !matches_digest(member, endpoint.message)) {
      return fail(Errc::corrupt, "the received bytes differ from the sent ones");
    }
    if (!member.barrier()) return stopped(endpoint);
  }
  member.barrier();
  return {};
}

Result<void> run_latency(Member& member) {
  const Options& options = member.options();
  Rendezvous& meet = member.meet();
  const bool client = member.rank() == 0;
  auto made = Endpoint::make(member, std::max<std::size_t>(options.size_bytes, 1) * 2);
  if (!made) return std::unexpected(made.error());
  Endpoint& endpoint = *made;
  fabric::QueuePair& queue_pair = *endpoint.queue_pair;
  const auto outgoing = endpoint.message.first(options.size_bytes);
  const auto incoming = endpoint.message.last(options.size_bytes);
  if (auto posted = queue_pair.post_receive({.work_id = 1, .bytes = incoming}); !posted) return posted;
  if (auto connected = endpoint.connect(member); !connected) return connected;
  if (!member.barrier()) return stopped(endpoint);

  std::array<fabric::Completion, 8> completions;
  std::uint32_t received = 0;
  bool broken = false;
  const auto poll = [&] {
    const std::size_t count = queue_pair.poll_completions(completions);
    for (const auto& completion : std::span(completions).first(count)) {
      broken = broken || completion.status != fabric::WorkStatus::success;
      if (completion.kind != fabric::WorkKind::receive || broken) continue;
      ++received;
      broken = !queue_pair.post_receive({.work_id = 1, .bytes = incoming});
    }
  };
  const std::uint32_t rounds = kWarmUpIterations + options.iterations;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    if (i == kWarmUpIterations) member.start_account();
    if (client) meet.started_ns[i] = monotonic_now().ns;
    const auto send = [&] { return queue_pair.post_send({.work_id = 2, .bytes = outgoing}); };
    if (client) {
      if (auto sent = send(); !sent) return sent;
    }
    const auto arrived = [&] {
      poll();
      return received > i || broken;
    };
    if (!member.run_until(arrived) || broken) return stopped(endpoint);
    if (client) {
      meet.finished_ns[i] = monotonic_now().ns;
    } else if (auto sent = send(); !sent) {
      return sent;
    }
  }
  member.end_account();
  member.barrier();
  return {};
}

}  // namespace rdmc::perf
