#include "apps/replicated-kv/service/statistics.hpp"

#include <algorithm>
#include <bit>

namespace rdmc::kv {

namespace {

/// Errors of more kinds than this are counted together, and commands of more names are not counted.
constexpr std::size_t kMostKinds = 512;
/// A slow command is shown with at most this number of words, and of bytes of each.
constexpr std::size_t kMostWords = 32, kMostWordBytes = 128;
constexpr std::int64_t kLookAfter = 100;

}  // namespace

CommandCounts& Statistics::of(std::string_view command) {
  const auto known = commands_.find(command);
  if (known != commands_.end()) return known->second;
  return commands_[commands_.size() < kMostKinds ? std::string(command) : "other"];
}

void Statistics::executed(std::string_view command, std::uint64_t microseconds, bool has_failed) {
  CommandCounts& counts = of(command);
  ++counts.calls;
  counts.microseconds += microseconds;
  counts.failed += has_failed;
  const auto bits = static_cast<std::size_t>(std::bit_width(microseconds > 0 ? microseconds - 1 : 0));
  ++counts.buckets[std::min(bits, CommandCounts::kBuckets - 1)];
}

void Statistics::rejected(std::string_view command) {
  ++of(command).rejected;
}

void Statistics::error(std::string_view code) {
  ++all_errors_;
  const auto known = errors_.find(code);
  if (known != errors_.end())
    ++known->second;
  else
    ++errors_[errors_.size() < kMostKinds ? std::string(code) : "other"];
}

void Statistics::reset() {
  commands_.clear();
  errors_.clear();
  all_errors_ = 0;
}

std::map<std::string_view, const CommandCounts*> Statistics::commands() const {
  std::map<std::string_view, const CommandCounts*> all;
  for (const auto& [name, counts] : commands_) all.emplace(name, &counts);
  return all;
}

void SlowLog::add(Entry entry, Arguments words, std::size_t most) {
  if (most == 0) return;
  entry.number = next_number_++;
  const std::size_t shown = words.size() > kMostWords ? kMostWords - 1 : words.size();
  for (const std::string_view word : words.first(shown)) {
    entry.words.emplace_back(word.substr(0, kMostWordBytes));
    if (word.size() > kMostWordBytes)
      entry.words.back() += "... (" + std::to_string(word.size() - kMostWordBytes) + " more bytes)";
  }
  if (shown < words.size())
    entry.words.push_back("... (" + std::to_string(words.size() - shown) + " more arguments)");
  entries_.push_front(std::move(entry));
  cut(most);
}

void SlowLog::cut(std::size_t most) {
  while (entries_.size() > most) entries_.pop_back();
}

void Rate::look(std::uint64_t count, std::int64_t now) {
  const std::int64_t passed = now - looked_at_;
  if (passed < kLookAfter) return;
  per_second_ = count < count_ ? 0 : (count - count_) * 1000 / static_cast<std::uint64_t>(passed);
  count_ = count;
  looked_at_ = now;
}

}  // namespace rdmc::kv
