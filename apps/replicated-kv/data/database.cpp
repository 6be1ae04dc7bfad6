#include "apps/replicated-kv/data/database.hpp"

#include <queue>

namespace rdmc::kv {

namespace {

constexpr std::uint32_t kNoExpiry = UINT32_MAX;

}  // namespace

std::string_view name(Type type) {
  switch (type) {
    case Type::string: return "string";
    case Type::list: return "list";
    case Type::hash: return "hash";
    case Type::set: return "set";
    case Type::sorted_set: return "zset";
  }
  return "none";
}

Type Item::type() const {
  const auto* const held = std::get_if<std::unique_ptr<Collection>>(&value);
  return held == nullptr ? Type::string : (*held)->type();
}

bool Database::has_expired(const Entry& entry, Milliseconds now) const {
  return entry.value.expiry != kNoExpiry && expiring_[entry.value.expiry].deadline <= now;
}

Database::Entry* Database::find(std::string_view key, Milliseconds now) const {
  Entry* const found = entries_.find(key);
  return found == nullptr || has_expired(*found, now) ? nullptr : found;
}

Database::Entry& Database::get_or_insert(std::string_view key, Milliseconds now) {
  auto [entry, is_new] = entries_.insert(key);
  if (!is_new && has_expired(*entry, now)) {
    erase(*entry);
    entry = entries_.insert(key).first;
  }
  return *entry;
}

void Database::erase(Entry& entry) {
  remove_deadline(entry);
  entries_.erase(entry);
}

void Database::clear() {
  memory_->subtract(expiring_.size() * sizeof(Expiring));
  expiring_ = decltype(expiring_)();  // An assignment of {} would keep the memory.
  entries_.clear();
}

// -- Deadlines --

std::optional<Milliseconds> Database::deadline(const Entry& entry) const {
  if (entry.value.expiry == kNoExpiry) return std::nullopt;
  return expiring_[entry.value.expiry].deadline;
}

std::optional<Milliseconds> Database::earliest_deadline() const {
  if (expiring_.empty()) return std::nullopt;
  return expiring_.front().deadline;
}

Database::Entry* Database::expired(Milliseconds now) const {
  return expiring_.empty() || expiring_.front().deadline > now ? nullptr : expiring_.front().entry;
}

/// In a heap, the keys after the first one are below keys that come before them.
std::vector<const Database::Entry*> Database::earliest(std::size_t count) const {
  std::vector<const Entry*> found;
  const auto is_later = [&](std::size_t a, std::size_t b) { return expiring_[b] < expiring_[a]; };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(is_later)> next(is_later);
  if (!expiring_.empty()) next.push(0);
  while (found.size() < count && !next.empty()) {
    const std::size_t index = next.top();
    next.pop();
    found.push_back(expiring_[index].entry);
    for (const std::size_t child : {2 * index + 1, 2 * index + 2})
      if (child < expiring_.size()) next.push(child);
  }
  return found;
}

void Database::put(std::size_t index, const Expiring& expiring) {
  expiring_[index] = expiring;
  expiring.entry->value.expiry = static_cast<std::uint32_t>(index);
}

void Database::lift(std::size_t index) {
  const Expiring lifted = expiring_[index];
  for (; index > 0 && lifted < expiring_[(index - 1) / 2]; index = (index - 1) / 2)
    put(index, expiring_[(index - 1) / 2]);
  put(index, lifted);
}

void Database::sink(std::size_t index) {
  const Expiring sunk = expiring_[index];
  for (;;) {
    std::size_t child = 2 * index + 1;
    if (child >= expiring_.size()) break;
    if (child + 1 < expiring_.size() && expiring_[child + 1] < expiring_[child]) ++child;
    if (!(expiring_[child] < sunk)) break;
    put(index, expiring_[child]);
    index = child;
  }
  put(index, sunk);
}

std::optional<std::pair<Milliseconds, std::uint64_t>> Database::saved_deadline(const Entry& entry) const {
  if (entry.value.expiry == kNoExpiry) return std::nullopt;
  const Expiring& expiring = expiring_[entry.value.expiry];
  return std::pair(expiring.deadline, expiring.serial);
}

void Database::set_deadline(Entry& entry, Milliseconds deadline) {
  restore_deadline(entry, deadline, next_serial_++);
}

void Database::restore_deadline(Entry& entry, Milliseconds deadline, std::uint64_t serial) {
  std::size_t index = entry.value.expiry;
  if (entry.value.expiry == kNoExpiry) {
    index = expiring_.size();
    expiring_.emplace_back();
    memory_->add(sizeof(Expiring));
  }
  put(index, {deadline, serial, &entry});
  lift(index);
  sink(entry.value.expiry);
}

bool Database::remove_deadline(Entry& entry) {
  if (entry.value.expiry == kNoExpiry) return false;
  const std::size_t index = std::exchange(entry.value.expiry, kNoExpiry);
  const Expiring last = expiring_.back();
  expiring_.pop_back();
  memory_->subtract(sizeof(Expiring));
  if (last.entry != &entry) {
    put(index, last);
    lift(index);
    sink(last.entry->value.expiry);
  }
  return true;
}

}  // namespace rdmc::kv
