#include "apps/replicated-kv/access/acl_log.hpp"

#include <algorithm>
#include <cstdlib>

namespace rdmc::kv {

namespace {

/// As many entries are compared with a new one, and they may be this old (Redis 7.0).
constexpr std::ptrdiff_t kMostCompared = 10;
constexpr Milliseconds kLongestGap = 60'000;

}  // namespace

void AclLog::add(Entry entry, std::size_t most) {
  for (std::string* const name : {&entry.object, &entry.user})
    if (name->size() > kMostNameBytes) name->resize(kMostNameBytes);
  const auto end = entries_.begin() + std::min(kMostCompared, std::ssize(entries_));
  const auto like = std::find_if(entries_.begin(), end, [&](const Entry& one) {
    return one.reason == entry.reason && one.context == entry.context && one.object == entry.object &&
           one.user == entry.user && std::abs(one.time - entry.time) <= kLongestGap;
  });
  if (like != end) {
    entry.count += like->count;
    entries_.erase(like);
  }
  entries_.push_front(std::move(entry));
  while (entries_.size() > most) entries_.pop_back();
}

}  // namespace rdmc::kv
