#include "apps/bcast-cli/ranking.hpp"

#include <algorithm>

namespace rdmc::bcast {

Ranking rank_by_rack(std::span<const session::MemberId> members, const RackOf& racks) {
  Ranking ranking{.members = {members.begin(), members.end()}, .racks = {}};
  if (racks.empty()) return ranking;
  constexpr std::uint32_t kUnnamed = ~std::uint32_t{0};
  std::vector<std::uint32_t> labels;
  for (const auto member : members) {
    const auto found = racks.find(member);
    labels.push_back(found == racks.end() ? kUnnamed : found->second);
  }
  auto order = relay::order_by_rack(labels);
  std::ranges::transform(order.order, ranking.members.begin(), [&](std::size_t i) { return members[i]; });
  ranking.racks = std::move(order.racks);
  return ranking;
}

RackOf racks_of(std::span<const session::MemberInfo> members, const relay::Racks& racks) {
  RackOf known;
  for (const auto& info : members) {
    const std::uint32_t rank = value_of(info.rank);
    if (rank < racks.members()) known[info.member] = static_cast<std::uint32_t>(racks.index_of(rank));
  }
  return known;
}

}  // namespace rdmc::bcast
