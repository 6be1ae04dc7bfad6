#include "apps/sim/store_history.hpp"

#include <algorithm>

namespace rdmc::sim_app {

void StoreHistory::proposed(const std::string& group, const view::View& next, Time at) {
  groups_[group].proposals.emplace_back(next, at);
}

void StoreHistory::told(const std::string& group, const view::View& current, Time asked, Time answered) {
  Group& entry = groups_[group];
  ++observations_;
  entry.observations.push_back({current.epoch, asked, answered});
  if (current.epoch == Epoch{}) return;
  const auto [found, fresh] = entry.stood.emplace(current.epoch, current);
  if (!fresh && found->second != current)
    entry.violations.push_back("two views of epoch " + std::to_string(value_of(current.epoch)));
}

void StoreHistory::begin_anew() {
  earlier_violations_ = violations();
  earlier_views_ = views();
  for (auto& [name, group] : groups_) group = {.proposals = std::move(group.proposals)};
}

std::size_t StoreHistory::views() const {
  std::size_t views = earlier_views_;
  for (const auto& [name, group] : groups_) views += group.stood.size();
  return views;
}

std::vector<std::string> StoreHistory::violations() const {
  std::vector<std::string> violations = earlier_violations_;
  for (const auto& [name, group] : groups_) check(name, group, violations);
  return violations;
}

/// Checks one group. A view of epoch e must have become current at a moment that meets two conditions. The
/// moment is after the beginning of each request that was answered with an earlier epoch. It is before the
/// end of each request that was answered with epoch e or a later one. Such a moment must exist for every
/// epoch, in the order of the epochs.
void StoreHistory::check(const std::string& name, const Group& group,
                         std::vector<std::string>& violations) const {
  for (const std::string& violation : group.violations) violations.push_back(name + ": " + violation);
  if (group.stood.empty()) return;
  const std::uint64_t last = value_of(group.stood.rbegin()->first);
  std::vector<Time> earliest(last + 2), latest(last + 2, Time::never());
  for (const auto& [epoch, asked, answered] : group.observations) {
    earliest[value_of(epoch) + 1] = std::max(earliest[value_of(epoch) + 1], asked);
    latest[value_of(epoch)] = std::min(latest[value_of(epoch)], answered);
  }
  for (const auto& [epoch, view] : group.stood) {
    const auto proposal = std::ranges::find(group.proposals, view, &std::pair<view::View, Time>::first);
    if (proposal == group.proposals.end())
      violations.push_back(name + ": a view that nobody has proposed");
    else
      earliest[value_of(epoch)] = std::max(earliest[value_of(epoch)], proposal->second);
  }
  for (std::uint64_t epoch = 1; epoch <= last; ++epoch)
    earliest[epoch] = std::max(earliest[epoch], earliest[epoch - 1]);
  for (std::uint64_t epoch = last; epoch > 0; --epoch)
    latest[epoch - 1] = std::min(latest[epoch - 1], latest[epoch]);
  for (std::uint64_t epoch = 1; epoch <= last; ++epoch)
    if (earliest[epoch] > latest[epoch])
      violations.push_back(name + ": no moment at which epoch " + std::to_string(epoch) + " can have begun");
}

}  // namespace rdmc::sim_app
