#include "bench/perf/payload.hpp"

#include <xxhash.h>

#include <algorithm>
#include <memory>

#include "dataplane/base/bytes.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::perf {
namespace {

constexpr std::size_t kBetweenTurns = 1 << 20;

XXH128_hash_t digest_of(std::span<const std::byte> bytes, const Meanwhile& meanwhile) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_128bits_reset(state.get());
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kBetweenTurns));
    bytes = bytes.subspan(part.size());
    XXH3_128bits_update(state.get(), part.data(), part.size());
    meanwhile();
  }
  return XXH3_128bits_digest(state.get());
}

}  // namespace

std::uint64_t stamp_of(std::size_t at, std::uint32_t iteration, std::uint32_t sender) {
  const std::uint64_t mark = std::uint64_t{sender} << 32 | iteration;
  return (at + 1) * 0x9E3779B97F4A7C15 ^ mark;
}

void stamp(Rendezvous& meet, std::span<std::byte> bytes, std::uint32_t iteration, std::uint32_t sender,
           const Meanwhile& meanwhile) {
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 4096) {
    store_be(bytes.data() + at, stamp_of(at, iteration, sender));
    if (at % kBetweenTurns == 0) meanwhile();
  }
  if (!bytes.empty()) bytes.back() = static_cast<std::byte>(iteration);
  const XXH128_hash_t digest = digest_of(bytes, meanwhile);
  meet.digests[sender].low = digest.low64;
  meet.digests[sender].high = digest.high64;
}

bool matches_digest(const Rendezvous& meet, std::span<const std::byte> bytes, std::uint32_t sender,
                    const Meanwhile& meanwhile) {
  const XXH128_hash_t digest = digest_of(bytes, meanwhile);
  const auto& sent = meet.digests[sender];
  return sent.low == digest.low64 && sent.high == digest.high64;
}

void record_start(Rendezvous& meet, std::uint32_t iteration) {
  const std::int64_t now = monotonic_now().ns;
  auto& first = meet.started_ns[iteration];
  for (std::int64_t seen = first.load();
       (seen == 0 || seen > now) && !first.compare_exchange_weak(seen, now);) {
  }
}

void record_finish(Rendezvous& meet, std::uint32_t iteration) {
  const std::int64_t now = monotonic_now().ns;
  auto& last = meet.finished_ns[iteration];
  for (std::int64_t seen = last.load(); seen < now && !last.compare_exchange_weak(seen, now);) {
  }
}

}  // namespace rdmc::perf
