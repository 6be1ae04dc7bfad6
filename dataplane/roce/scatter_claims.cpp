#include "dataplane/roce/scatter_claims.hpp"

#include <iterator>
#include <utility>

namespace rdmc::roce {

ScatterClaims::Id ScatterClaims::claim(std::span<std::byte> memory) {
  end_within(memory);
  const Claim made{.end = memory.data() + memory.size(), .id = ++last_};
  if (spare_.empty()) {
    // Reserves the memory that is needed when a claim ends, because end_within() must not allocate memory.
    if (spare_.capacity() <= claims_.size()) spare_.reserve(2 * claims_.size() + 1);
    claims_.emplace(memory.data(), made);
  } else {
    auto node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = memory.data();
    node.mapped() = made;
    claims_.insert(std::move(node));
  }
  return made.id;
}

bool ScatterClaims::holds(Id id, std::span<const std::byte> memory) const {
  const auto found = claims_.find(memory.data());
  return found != claims_.end() && found->second.id == id;
}

void ScatterClaims::withdraw(Id id, std::span<const std::byte> memory) {
  const auto found = claims_.find(memory.data());
  if (found != claims_.end() && found->second.id == id) erase(found);
}

void ScatterClaims::end_within(std::span<const std::byte> memory, Id spared) {
  if (claims_.empty() || memory.empty()) return;
  const std::byte* const end = memory.data() + memory.size();
  auto at = claims_.upper_bound(memory.data());
  if (at != claims_.begin() && std::less<>()(memory.data(), std::prev(at)->second.end)) --at;
  while (at != claims_.end() && std::less<>()(at->first, end))
    at = at->second.id == spared ? std::next(at) : erase(at);
}

ScatterClaims::Claims::iterator ScatterClaims::erase(Claims::iterator one) {
  const auto next = std::next(one);
  spare_.push_back(claims_.extract(one));
  return next;
}

}  // namespace rdmc::roce
