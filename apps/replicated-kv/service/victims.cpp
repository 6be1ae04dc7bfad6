#include "apps/replicated-kv/service/victims.hpp"

#include <algorithm>
#include <set>

namespace rdmc::kv {

namespace {

using Policy = MemoryLimit::Policy;

std::size_t count_of(const Database& database, const MemoryLimit& limit) {
  return limit.only_with_deadline ? database.keys_with_deadline() : database.size();
}

}  // namespace

std::uint64_t Victims::below(std::uint64_t most) {
  random_ = random_ * 6364136223846793005 + 1442695040888963407;
  return (random_ >> 32) % most;
}

Victims::Victim Victims::any(Databases& databases) {
  const MemoryLimit& limit = databases.limit();
  std::uint64_t index = below(databases.evictable());
  for (std::uint32_t i = 0; i < Databases::kCount; ++i) {
    Database& database = databases.at(i);
    if (index < count_of(database, limit)) {
      const Database::Entry& entry =
          limit.only_with_deadline ? database.with_deadline_at(index) : database.at(index);
      return {i, std::string(entry.key())};
    }
    index -= count_of(database, limit);
  }
  return {};
}

void Victims::look(Databases& databases, std::size_t samples) {
  const UsageClock& clock = databases.shared().usage;
  for (std::size_t i = 0; i < samples; ++i) {
    Victim victim = any(databases);
    const Database::Entry* const entry = databases.at(victim.database).find(victim.key, INT64_MIN);
    const std::uint32_t badness = clock.badness(entry->value.usage);
    const bool is_known = std::ranges::any_of(candidates_, [&](const Candidate& one) {
      return one.victim.database == victim.database && one.victim.key == victim.key;
    });
    if (is_known) continue;
    const auto at = std::ranges::upper_bound(candidates_, badness, {}, &Candidate::badness);
    candidates_.insert(at, {badness, std::move(victim)});
    if (candidates_.size() > kMostCandidates) candidates_.erase(candidates_.begin());
  }
}

/// The keys with the earliest deadlines of all databases.
std::vector<Victims::Victim> Victims::earliest(Databases& databases, std::size_t count) {
  std::vector<std::pair<Milliseconds, Victim>> found;
  for (std::uint32_t i = 0; i < Databases::kCount; ++i)
    for (const Database::Entry* const entry : databases.at(i).earliest(count))
      found.emplace_back(databases.at(i).deadline(*entry).value_or(0), Victim{i, std::string(entry->key())});
  std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
  std::vector<Victim> victims;
  for (std::size_t i = 0; i < std::min(count, found.size()); ++i)
    victims.push_back(std::move(found[i].second));
  return victims;
}

std::vector<Victims::Victim> Victims::choose(Databases& databases, std::size_t count, std::size_t samples) {
  const MemoryLimit& limit = databases.limit();
  count = std::min<std::size_t>(count, databases.evictable());
  if (limit.policy == Policy::deadline) return earliest(databases, count);
  std::vector<Victim> victims;
  std::set<std::pair<std::uint32_t, std::string>> chosen;
  const auto add = [&](Victim victim) {
    if (chosen.emplace(victim.database, victim.key).second) victims.push_back(std::move(victim));
  };
  // Keys that were chosen before are met again and again when few others are left. The rest follows later.
  for (std::size_t tries = 0; victims.size() < count && tries < 2 * count; ++tries) {
    if (limit.policy == Policy::random) {
      add(any(databases));
      continue;
    }
    look(databases, samples);
    if (candidates_.empty()) continue;
    const std::uint32_t badness = candidates_.back().badness;
    Victim best = std::move(candidates_.back().victim);
    candidates_.pop_back();
    // Since it was looked at, the candidate may have been removed or used, or may have lost its deadline.
    Database& database = databases.at(best.database);
    const Database::Entry* const entry = database.find(best.key, INT64_MIN);
    const bool is_good = entry != nullptr && (!limit.only_with_deadline || database.deadline(*entry)) &&
                         databases.shared().usage.badness(entry->value.usage) >= badness;
    if (is_good) add(std::move(best));
  }
  return victims;
}

}  // namespace rdmc::kv
