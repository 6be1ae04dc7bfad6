#include "dataplane/relay/racks.hpp"

#include <cassert>
#include <numeric>
#include <unordered_map>

namespace rdmc::relay {

Result<Racks> Racks::of(std::span<const std::uint32_t> sizes) {
  if (sizes.empty()) return fail(Errc::invalid_argument, "racks: none");
  std::vector<Rack> racks;
  Rack next{.head = 0, .members = 0, .start = 0};
  for (const std::uint32_t members : sizes) {
    if (members == 0) return fail(Errc::invalid_argument, "racks: an empty one");
    if (members > kMaxMembers - next.head)
      return fail(Errc::invalid_argument, "racks: more members than a group can have");
    next.members = members;
    racks.push_back(next);
    next.head += members;
    // A block that the head sends in step t leaves the rack floor(log2 members) steps later. The head of the
    // next rack sends this block in the next step.
    next.start += static_cast<std::uint64_t>(std::bit_width(members));
  }
  return Racks(std::move(racks));
}

Racks Racks::one(std::uint32_t members) {
  assert(members >= 1 && members <= kMaxMembers);
  return Racks({{.head = 0, .members = members, .start = 0}});
}

std::size_t Racks::index_of(std::uint32_t rank) const {
  assert(rank < members());
  const auto after = std::ranges::upper_bound(*racks_, rank, {}, &Rack::head);
  return static_cast<std::size_t>(after - racks_->begin()) - 1;
}

std::vector<std::uint32_t> Racks::sizes() const {
  std::vector<std::uint32_t> sizes;
  for (const Rack& rack : all()) sizes.push_back(rack.members);
  return sizes;
}

RankOrder order_by_rack(std::span<const std::uint32_t> labels) {
  std::unordered_map<std::uint32_t, std::size_t> number;  // the number of each rack, by its label
  std::vector<std::uint32_t> sizes;
  std::vector<std::size_t> rack;
  for (const std::uint32_t label : labels) {
    const auto [at, is_new] = number.emplace(label, sizes.size());
    if (is_new) sizes.push_back(0);
    ++sizes[at->second];
    rack.push_back(at->second);
  }
  RankOrder result;
  result.order.resize(labels.size());
  std::iota(result.order.begin(), result.order.end(), std::size_t{0});
  std::ranges::stable_sort(result.order, {}, [&](std::size_t member) { return rack[member]; });
  auto racks = Racks::of(sizes);
  assert(racks);
  result.racks = std::move(*racks);
  return result;
}

}  // namespace rdmc::relay
