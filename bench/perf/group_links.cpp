#include "bench/perf/group_links.hpp"

namespace rdmc::perf {

std::vector<group::PeerId> first_peers(std::uint32_t count) {
  std::vector<group::PeerId> peers;
  for (std::uint32_t i = 0; i < count; ++i) peers.push_back(group::PeerId{i});
  return peers;
}

Result<void> connect(Member& member, group::Peers& peers, const std::vector<Rank>& neighbours) {
  for (const Rank peer : neighbours) {
    const auto blob = peers.offer(group::PeerId{value_of(peer)});
    if (!blob) return std::unexpected(blob.error());
    member.meet().give(member.rank(), value_of(peer), *blob);
  }
  for (const Rank peer : neighbours) {
    const auto blob = member.meet().take(value_of(peer), member.rank());
    if (auto connected = peers.connect(group::PeerId{value_of(peer)}, blob); !connected) return connected;
  }
  return {};
}

}  // namespace rdmc::perf
