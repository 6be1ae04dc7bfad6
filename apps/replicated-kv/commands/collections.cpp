#include "apps/replicated-kv/commands/collections.hpp"

#include <algorithm>
#include <charconv>
#include <unordered_set>

namespace rdmc::kv {

void finish_change(Call& call, std::string_view key) {
  Database::Entry* const entry = call.find(key);
  if (entry != nullptr && entry->value.collection()->size() == 0) return call.erase(*entry);
  call.changed(key);
}

void store(Call& call, std::string_view key, std::unique_ptr<Collection> collection) {
  if (Database::Entry* const entry = call.find(key)) call.erase(*entry);
  if (collection->size() == 0) return;
  call.get_or_insert(key).value.value = std::move(collection);
  call.changed(key);
}

Slice slice_of(std::int64_t first, std::int64_t last, std::size_t size) {
  const auto end = static_cast<std::int64_t>(size);
  if (first < 0) first = std::max<std::int64_t>(first + end, 0);
  if (last < 0) last += end;
  last = std::min(last, end - 1);
  if (first > last) return {};
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(last - first + 1)};
}

std::uint64_t RandomNumbers::next() {
  std::uint64_t mixed = state_ += 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31);
}

std::vector<std::size_t> choose(RandomNumbers& random, std::size_t count, std::size_t bound) {
  std::vector<std::size_t> chosen;
  std::unordered_set<std::size_t> known;
  for (std::size_t i = bound - count; i < bound; ++i) {
    std::size_t number = random.below(i + 1);
    if (!known.insert(number).second) known.insert(number = i);
    chosen.push_back(number);
  }
  return chosen;
}

std::optional<std::int64_t> random_count(Call& call, std::string_view word) {
  // A negative number asks for so many elements, whatever the size of the collection.
  constexpr std::int64_t kMostRepeated = 16 << 20;
  const auto count = integer(call, word);
  if (!count || *count >= -kMostRepeated) return count;
  call.reply.error(
      *count == INT64_MIN
          ? "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807"
          : "ERR value is out of range");
  return std::nullopt;
}

std::optional<std::size_t> scan_cursor(Call& call, std::string_view word) {
  std::size_t cursor = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), cursor);
  if (error == std::errc{} && end == word.data() + word.size()) return cursor;
  call.reply.error("ERR invalid cursor");
  return std::nullopt;
}

std::optional<ScanOptions> scan_options(Call& call, std::size_t at, std::size_t cursor, bool has_type) {
  ScanOptions options;
  options.cursor = cursor;
  for (std::size_t i = at + 1; i < call.words.size(); i += 2) {
    const bool has_value = i + 1 < call.words.size();
    if (has_value && is_word(call.words[i], "count")) {
      const auto number = integer(call, call.words[i + 1]);
      if (!number) return std::nullopt;
      if (*number < 1) {
        call.reply.error(kSyntax);
        return std::nullopt;
      }
      options.count = static_cast<std::size_t>(*number);
    } else if (has_value && is_word(call.words[i], "match")) {
      options.pattern = call.words[i + 1];
    } else if (has_value && has_type && is_word(call.words[i], "type")) {
      options.type = to_lower(call.words[i + 1]);
    } else {
      call.reply.error(kSyntax);
      return std::nullopt;
    }
  }
  return options;
}

void reply_scan(Call& call, std::size_t cursor, const std::vector<std::string>& found) {
  call.reply.array(2);
  call.reply.bulk(std::to_string(cursor));
  call.reply.array(found.size());
  for (const std::string& text : found) call.reply.bulk(text);
}

std::optional<NumberedKeys> numbered_keys(Call& call, std::size_t at, std::string_view too_many) {
  const auto number = to_integer(call.words[at]);
  if (!number || *number <= 0 || *number > INT32_MAX) {
    call.reply.error("ERR numkeys should be greater than 0");
    return std::nullopt;
  }
  const auto count = static_cast<std::size_t>(*number);
  if (count > call.words.size() - at - 1) {
    call.reply.error(too_many);
    return std::nullopt;
  }
  return NumberedKeys{call.words.subspan(at + 1, count), at + 1 + count};
}

std::optional<std::size_t> pop_count(Call& call, std::size_t at) {
  std::optional<std::size_t> count;
  for (; at < call.words.size(); at += 2) {
    if (count || at + 1 == call.words.size() || !is_word(call.words[at], "count")) {
      call.reply.error(kSyntax);
      return std::nullopt;
    }
    const auto number = to_integer(call.words[at + 1]);
    if (!number || *number <= 0) {
      call.reply.error("ERR count should be greater than 0");
      return std::nullopt;
    }
    count = static_cast<std::size_t>(*number);
  }
  return count.value_or(1);
}

}  // namespace rdmc::kv
