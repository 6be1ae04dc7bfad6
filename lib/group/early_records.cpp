#include "lib/group/early_records.hpp"

#include <algorithm>
#include <utility>

namespace rdmc::group {
namespace {

/// The number of bytes that a record counts against the limit.
std::size_t cost(const EarlyRecords::Kept& kept) {
  return kept.record.size() + sizeof kept;
}

}  // namespace

void EarlyRecords::uncount(const Waiting& waiting) {
  for (const Kept& kept : waiting.records) bytes_ -= cost(kept);
  bytes_ -= kGroupBytes + waiting.peers.size() * sizeof(PeerId);
}

std::optional<EarlyRecords::Refused> EarlyRecords::keep(const GroupName& name, PeerId peer,
                                                        std::span<const std::byte> record, Time now) {
  auto found = std::ranges::find(waiting_, name, &Waiting::name);
  if (found == waiting_.end()) {
    waiting_.push_back({.name = name, .since = now, .peers = {}, .told = 0, .records = {}});
    found = waiting_.end() - 1;
    bytes_ += kGroupBytes;
  }
  if (std::ranges::find(found->peers, peer) == found->peers.end()) {
    found->peers.push_back(peer);
    bytes_ += sizeof peer;
  }
  found->records.push_back({peer, {record.begin(), record.end()}});
  bytes_ += cost(found->records.back());
  if (bytes_ <= limits_.bytes) return std::nullopt;
  return drop(found);
}

std::optional<EarlyRecords::Kept> EarlyRecords::take(const GroupName& name) {
  const auto found = std::ranges::find(waiting_, name, &Waiting::name);
  if (found == waiting_.end()) return std::nullopt;
  std::optional<Kept> first;
  if (!found->records.empty()) {
    first = std::move(found->records.front());
    found->records.pop_front();
    bytes_ -= cost(*first);
  }
  if (found->records.empty()) {
    uncount(*found);
    waiting_.erase(found);
  }
  return first;
}

EarlyRecords::Refused EarlyRecords::drop(std::vector<Waiting>::iterator waiting) {
  uncount(*waiting);
  Refused refused{.name = waiting->name, .peers = std::move(waiting->peers)};
  waiting_.erase(waiting);
  set_over(refused.name);
  return refused;
}

std::optional<EarlyRecords::Refused> EarlyRecords::expire(Time now) {
  if (limits_.patience == Duration{}) return std::nullopt;
  const auto due =
      std::ranges::find_if(waiting_, [&](const Waiting& one) { return one.since + limits_.patience <= now; });
  if (due == waiting_.end()) return std::nullopt;
  return drop(due);
}

std::optional<EarlyRecords::Waits> EarlyRecords::next_to_tell(Time now) {
  const auto late = std::ranges::find_if(waiting_, [&](const Waiting& one) {
    return one.told < one.peers.size() && one.since + kToldAfter <= now;
  });
  if (late == waiting_.end()) return std::nullopt;
  return Waits{.name = late->name, .peer = late->peers[late->told]};
}

void EarlyRecords::set_told(const GroupName& name) {
  const auto told = std::ranges::find(waiting_, name, &Waiting::name);
  if (told != waiting_.end()) ++told->told;
}

Time EarlyRecords::next_deadline() const {
  Time earliest = Time::never();
  for (const Waiting& one : waiting_) {
    if (limits_.patience != Duration{}) earliest = std::min(earliest, one.since + limits_.patience);
    if (one.told < one.peers.size()) earliest = std::min(earliest, one.since + kToldAfter);
  }
  return earliest;
}

void EarlyRecords::forget_records(Waiting& waiting, PeerId peer) {
  std::erase_if(waiting.records, [&](const Kept& kept) {
    if (kept.peer == peer) bytes_ -= cost(kept);
    return kept.peer == peer;
  });
}

void EarlyRecords::forget(const GroupName& name, PeerId peer) {
  const auto found = std::ranges::find(waiting_, name, &Waiting::name);
  if (found != waiting_.end()) forget_records(*found, peer);
}

void EarlyRecords::forget_before(const GroupName& name) {
  std::erase_if(waiting_, [&](const Waiting& one) {
    const bool is_past = one.name.number == name.number && one.name.epoch < name.epoch;
    if (is_past) uncount(one);
    return is_past;
  });
}

void EarlyRecords::forget(PeerId peer) {
  for (Waiting& one : waiting_) {
    forget_records(one, peer);
    const auto known = std::ranges::find(one.peers, peer);
    if (known == one.peers.end()) continue;
    if (std::cmp_less(known - one.peers.begin(), one.told)) --one.told;
    one.peers.erase(known);
    bytes_ -= sizeof peer;
  }
  std::erase_if(waiting_, [this](const Waiting& one) {
    if (one.records.empty()) uncount(one);
    return one.records.empty();
  });
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
