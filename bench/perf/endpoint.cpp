#include "bench/perf/endpoint.hpp"

namespace rdmc::perf {

Result<Endpoint> Endpoint::make(Member& member, std::size_t bytes) {
  const Options& options = member.options();
  auto arena = member.fabric().make_arena(bytes);
  if (!arena) return std::unexpected(arena.error());
  Endpoint endpoint{.arena = std::move(*arena), .region = nullptr, .queue_pair = nullptr, .message = {}};
  endpoint.message = endpoint.arena.bytes().first(bytes);
  auto region = member.fabric().register_memory(endpoint.message);
  if (!region) return std::unexpected(region.error());
  endpoint.region = std::move(*region);
  fabric::QueuePairOptions wanted;
  wanted.path_mtu = options.path_mtu;
  wanted.selective_repeat = options.selective_repeat;
  wanted.receive_depth = kReceives;
  auto queue_pair = member.fabric().create_queue_pair(wanted);
  if (!queue_pair) return std::unexpected(queue_pair.error());
  endpoint.queue_pair = std::move(*queue_pair);
  member.meet().figures[member.rank()].path_mtu =
      options.path_mtu == 0 ? member.fabric().info().path_mtu
                            : std::min(options.path_mtu, member.fabric().info().path_mtu);
  return endpoint;
}

Result<void> Endpoint::connect(Member& member) {
  const std::uint32_t us = member.rank(), peer = 1 - us;
  member.meet().give(us, peer, queue_pair->local_blob());
  return queue_pair->connect(member.meet().take(peer, us));
}

Result<void> stopped(const Endpoint& endpoint) {
  return fail(Errc::peer_failed, endpoint.cause().empty() ? "the other member failed" : endpoint.cause());
}

}  // namespace rdmc::perf
