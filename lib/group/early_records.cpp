#include "lib/group/early_records.hpp"

#include <algorithm>

namespace rdmc::group {
namespace {

/// What keeping it takes.
std::size_t cost(const EarlyRecords::Kept& kept) {
  return kept.record.size() + sizeof kept;
}

}  // namespace

std::optional<EarlyRecords::Refused> EarlyRecords::keep(const GroupName& name, PeerId peer,
                                                        std::span<const std::byte> record, Time now) {
  auto found = std::ranges::find(waiting_, name, &Waiting::name);
  if (found == waiting_.end()) {
    waiting_.push_back({.name = name, .deadline = now + limits_.patience, .records = {}});
    found = waiting_.end() - 1;
  }
  found->records.push_back({peer, {record.begin(), record.end()}});
  bytes_ += cost(found->records.back());
  if (bytes_ <= limits_.bytes) return std::nullopt;
  return drop(found);
}

std::optional<EarlyRecords::Kept> EarlyRecords::take(const GroupName& name) {
  const auto found = std::ranges::find(waiting_, name, &Waiting::name);
  if (found == waiting_.end()) return std::nullopt;
  if (found->records.empty()) {
    waiting_.erase(found);
    return std::nullopt;
  }
  Kept first = std::move(found->records.front());
  found->records.pop_front();
  bytes_ -= cost(first);
  return first;
}

EarlyRecords::Refused EarlyRecords::drop(std::vector<Waiting>::iterator waiting) {
  Refused refused{.name = waiting->name, .peers = {}};
  for (const Kept& kept : waiting->records) {
    bytes_ -= cost(kept);
    if (std::ranges::find(refused.peers, kept.peer) == refused.peers.end())
      refused.peers.push_back(kept.peer);
  }
  waiting_.erase(waiting);
  set_over(refused.name);
  return refused;
}

std::optional<EarlyRecords::Refused> EarlyRecords::expire(Time now) {
  const auto due = std::ranges::find_if(waiting_, [&](const Waiting& one) { return one.deadline <= now; });
  if (due == waiting_.end()) return std::nullopt;
  return drop(due);
}

Time EarlyRecords::next_deadline() const {
  Time earliest = Time::never();
  for (const Waiting& one : waiting_) earliest = std::min(earliest, one.deadline);
  return earliest;
}

void EarlyRecords::forget(PeerId peer) {
  for (Waiting& one : waiting_) {
    std::erase_if(one.records, [&](const Kept& kept) {
      if (kept.peer == peer) bytes_ -= cost(kept);
      return kept.peer == peer;
    });
  }
  std::erase_if(waiting_, [](const Waiting& one) { return one.records.empty(); });
}

void EarlyRecords::set_over(const GroupName& name) {
  if (over_.contains(name)) return;
  over_order_.push_back(name);
  over_.insert(name);
  if (over_order_.size() <= kMostOver) return;
  over_.erase(over_order_.front());
  over_order_.pop_front();
}

}  // namespace rdmc::group
