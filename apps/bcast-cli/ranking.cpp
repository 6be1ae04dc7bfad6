#include "apps/bcast-cli/ranking.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

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

std::vector<session::MemberId> take_stragglers(std::vector<session::ParametersNeeded::Candidate>& lacking) {
  using Candidate = session::ParametersNeeded::Candidate;
  std::vector<session::MemberId> stragglers;
  if (std::ranges::all_of(lacking, &Candidate::is_straggler)) return stragglers;
  for (const Candidate& candidate : lacking)
    if (candidate.is_straggler) stragglers.push_back(candidate.member);
  std::erase_if(lacking, [](const Candidate& candidate) { return candidate.is_straggler; });
  return stragglers;
}

Ranking with_stragglers(Ranking others, std::span<const session::MemberId> stragglers) {
  auto sizes = others.racks.sizes();
  if (sizes.empty()) sizes.push_back(static_cast<std::uint32_t>(others.members.size()));
  sizes.push_back(static_cast<std::uint32_t>(stragglers.size()));
  others.members.insert(others.members.end(), stragglers.begin(), stragglers.end());
  auto racks = relay::Racks::of(sizes);
  assert(racks);
  others.racks = std::move(*racks);
  return others;
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
