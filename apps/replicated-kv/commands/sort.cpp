// SORT.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "apps/replicated-kv/commands/collections.hpp"
#include "apps/replicated-kv/data/hash.hpp"
#include "apps/replicated-kv/data/list.hpp"
#include "apps/replicated-kv/data/set.hpp"
#include "apps/replicated-kv/data/sorted_set.hpp"

namespace rdmc::kv {

namespace {

struct SortOptions {
  bool is_descending = false, is_alphabetic = false, keeps_order = false;
  std::int64_t first = 0, most = -1;
  std::optional<std::string_view> by, target;
  std::vector<std::string_view> patterns;  // of GET
};

std::optional<SortOptions> sort_options(Call& call, bool may_store) {
  SortOptions options;
  for (std::size_t i = 2; i < call.words.size(); ++i) {
    const std::string_view word = call.words[i];
    const std::size_t rest = call.words.size() - i - 1;
    if (is_word(word, "asc")) {
      options.is_descending = false;
    } else if (is_word(word, "desc")) {
      options.is_descending = true;
    } else if (is_word(word, "alpha")) {
      options.is_alphabetic = true;
    } else if (is_word(word, "limit") && rest >= 2) {
      const auto first = integer(call, call.words[i + 1]);
      const auto most = first ? integer(call, call.words[i + 2]) : std::nullopt;
      if (!most) return std::nullopt;
      options.first = *first;
      options.most = *most;
      i += 2;
    } else if (may_store && is_word(word, "store") && rest >= 1) {
      options.target = call.words[++i];
    } else if (is_word(word, "by") && rest >= 1) {
      options.by = call.words[++i];
      if (!options.by->contains('*')) {
        options.keeps_order = true;
      } else if (!call.may_read_all_keys) {
        call.reply.error("ERR BY option of SORT denied due to insufficient ACL permissions.");
        return std::nullopt;
      }
    } else if (is_word(word, "get") && rest >= 1) {
      if (!call.may_read_all_keys) {
        call.reply.error("ERR GET option of SORT denied due to insufficient ACL permissions.");
        return std::nullopt;
      }
      options.patterns.push_back(call.words[++i]);
    } else {
      call.reply.error(kSyntax);
      return std::nullopt;
    }
  }
  return options;
}

/// The string that a pattern such as "weight_*" or "object_*->field" names for an element.
std::optional<std::string> look_up(Call& call, std::string_view pattern, std::string_view element) {
  if (pattern == "#") return std::string(element);
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return std::nullopt;
  const std::size_t arrow = pattern.find("->", star + 1);
  const bool is_field = arrow != std::string_view::npos && arrow + 2 < pattern.size();
  const std::string_view key_pattern = is_field ? pattern.substr(0, arrow) : pattern;
  std::string key(key_pattern.substr(0, star));
  key += element;
  key += key_pattern.substr(star + 1);
  Database::Entry* const entry = call.find(key);
  if (entry == nullptr) return std::nullopt;
  if (!is_field) {
    const Text* const text = entry->value.text();
    return text == nullptr ? std::nullopt : std::optional(std::string(*text));
  }
  if (entry->value.type() != Type::hash) return std::nullopt;
  const auto value = static_cast<Hash*>(entry->value.collection())->find(pattern.substr(arrow + 2));
  return value ? std::optional(std::string(*value)) : std::nullopt;
}

/// The elements in the order of the collection.
std::vector<std::string> elements_of(Collection& collection) {
  std::vector<std::string> elements;
  elements.reserve(collection.size());
  if (collection.type() == Type::list) {
    const auto& list = static_cast<List&>(collection);
    for (List::Place at = list.begin(); at != list.end(); at = list.next(at))
      elements.emplace_back(list.at(at));
  } else if (collection.type() == Type::set) {
    static_cast<Set&>(collection).visit([&](std::string_view member) {
      return elements.emplace_back(member), true;
    });
  } else {
    const auto& set = static_cast<SortedSet&>(collection);
    set.visit(0, set.size(), false, [&](const auto& member) { elements.emplace_back(member.name); });
  }
  return elements;
}

/// An element with what it is compared by.
struct Sorted {
  std::string element;
  double score = 0;
  std::optional<std::string> text;
};

/// Finds what the elements are compared by. Returns false after an error reply.
bool weigh(Call& call, const SortOptions& options, std::vector<Sorted>& sorted) {
  for (Sorted& one : sorted) {
    const auto value = options.by ? look_up(call, *options.by, one.element) : std::optional(one.element);
    if (!value) continue;
    if (options.is_alphabetic) {
      one.text = value;
      continue;
    }
    char* end = nullptr;
    errno = 0;
    one.score = std::strtod(value->c_str(), &end);
    if (*end != '\0' || errno == ERANGE || std::isnan(one.score)) {
      call.reply.error("ERR One or more scores can't be converted into double");
      return false;
    }
  }
  return true;
}

void order(const SortOptions& options, std::vector<Sorted>& sorted) {
  const auto is_before = [&](const Sorted& a, const Sorted& b) {
    if (options.is_alphabetic) return a.text < b.text;  // A missing text comes first.
    return a.score != b.score ? a.score < b.score : a.element < b.element;
  };
  if (options.is_descending)
    std::ranges::stable_sort(sorted, [&](const Sorted& a, const Sorted& b) { return is_before(b, a); });
  else
    std::ranges::stable_sort(sorted, is_before);
}

/// The part of the elements that LIMIT names.
Slice limited(const SortOptions& options, std::size_t size) {
  const std::size_t first =
      std::min(static_cast<std::size_t>(std::max<std::int64_t>(options.first, 0)), size);
  const std::size_t rest = size - first;
  return {first, options.most < 0 ? rest : std::min(rest, static_cast<std::size_t>(options.most))};
}

template <bool may_store>
void sort(Call& call) {
  auto options = sort_options(call, may_store);
  if (!options) return;
  Database::Entry* const entry = call.find(call.words[1]);
  const Type type = entry == nullptr ? Type::list : entry->value.type();
  if (type == Type::string || type == Type::hash) return call.reply.error(kWrongType);
  // A stored result must be the same everywhere, and so must not follow from the order of a set.
  if (options->keeps_order && type == Type::set && options->target) {
    options->keeps_order = false;
    options->is_alphabetic = true;
    options->by = std::nullopt;
  }
  std::vector<Sorted> sorted;
  if (entry != nullptr)
    for (std::string& element : elements_of(*entry->value.collection()))
      sorted.push_back({std::move(element), 0, {}});
  if (!options->keeps_order) {
    if (!weigh(call, *options, sorted)) return;
    order(*options, sorted);
  } else if (options->is_descending && type != Type::set) {
    std::ranges::reverse(sorted);
  }
  const Slice slice = limited(*options, sorted.size());
  std::vector<std::optional<std::string>> results;
  for (std::size_t i = slice.first; i < slice.first + slice.count; ++i) {
    if (options->patterns.empty()) results.emplace_back(std::move(sorted[i].element));
    for (const std::string_view pattern : options->patterns)
      results.push_back(look_up(call, pattern, sorted[i].element));
  }
  if (options->target) {
    auto list = std::make_unique<List>(call.databases.shared());
    for (const auto& result : results) list->push(List::End::back, result.value_or(""));
    store(call, *options->target, std::move(list));
    return reply_count(call, results.size());
  }
  call.reply.array(results.size());
  for (const auto& result : results) result ? call.reply.bulk(*result) : call.reply.null();
}

using namespace flag;
constexpr std::array kSortCommands = {
    Command{"sort", -2, kWrite | kGrows, 1, 1, 1, sort<true>},
    Command{"sort_ro", -2, kRead, 1, 1, 1, sort<false>},
};

}  // namespace

std::span<const Command> sort_commands() {
  return kSortCommands;
}

}  // namespace rdmc::kv
