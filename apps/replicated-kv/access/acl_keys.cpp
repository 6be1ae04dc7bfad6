// Finds the keys and channels among the words of a request, by the specifications in the table and, as Redis
// does, by code for the few commands whose specifications are not exact.
#include <algorithm>
#include <optional>

#include "apps/replicated-kv/access/acl_command.hpp"
#include "apps/replicated-kv/commands/arguments.hpp"

namespace rdmc::kv {

namespace {

/// SET reads the key only with GET.
std::vector<KeyWord> keys_of_set(Arguments words) {
  const bool reads = std::ranges::any_of(words.subspan(std::min<std::size_t>(3, words.size())),
                                         [](std::string_view word) { return is_word(word, "get"); });
  return {{1, reads ? key_use::kChanges : key_use::kSets}};
}

/// BITFIELD changes nothing if it has only GET.
std::vector<KeyWord> keys_of_bitfield(Arguments words) {
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::size_t rest = words.size() - i - 1;
    if (is_word(words[i], "get") && rest >= 2)
      i += 2;
    else if (is_word(words[i], "overflow") && rest >= 1)
      i += 1;
    else
      return {{1, key_use::kChanges}};
  }
  return {{1, key_use::kReads}};
}

/// Only the last STORE of SORT counts. The words after LIMIT, BY and GET are no options.
std::vector<KeyWord> keys_of_sort(Arguments words) {
  std::vector<KeyWord> keys{{1, key_use::kReads}};
  std::optional<std::size_t> target;
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (is_word(words[i], "store") && i + 1 < words.size())
      target = ++i;
    else if (is_word(words[i], "limit"))
      i += 2;
    else if (is_word(words[i], "by") || is_word(words[i], "get"))
      i += 1;
  }
  if (target) keys.push_back({*target, key_use::kSets});
  return keys;
}

std::vector<KeyWord> keys_of_migrate(Arguments words) {
  std::vector<KeyWord> keys;
  for (std::size_t i = 6; i < words.size(); ++i) {
    if (is_word(words[i], "keys")) {
      if (!words[3].empty()) return {};  // MIGRATE refuses this.
      for (std::size_t key = i + 1; key < words.size(); ++key) keys.push_back({key, key_use::kPops});
      return keys;
    }
    i += is_word(words[i], "auth") ? 1 : is_word(words[i], "auth2") ? 2 : 0;
  }
  return {{3, key_use::kPops}};
}

/// Returns the index of the word after the keyword.
std::optional<std::int64_t> find_keyword(const KeySpec& spec, Arguments words) {
  const auto size = static_cast<std::int64_t>(words.size());
  const bool is_forward = spec.at > 0;
  for (std::int64_t i = is_forward ? spec.at : size + spec.at; i >= 1 && i < size; i += is_forward ? 1 : -1)
    if (is_word(to_lower(words[static_cast<std::size_t>(i)]), to_lower(spec.keyword))) return i + 1;
  return std::nullopt;
}

void append_keys(const KeySpec& spec, Arguments words, std::vector<KeyWord>& keys) {
  const auto size = static_cast<std::int64_t>(words.size());
  std::int64_t first = spec.at, last = 0;
  if (spec.begin == KeySpec::Begin::unknown || spec.find == KeySpec::Find::unknown) return;
  if (spec.begin == KeySpec::Begin::keyword) {
    const auto found = find_keyword(spec, words);
    if (!found) return;
    first = *found;
  }
  if (spec.find == KeySpec::Find::number) {
    const auto count = first < size ? to_integer(words[static_cast<std::size_t>(first)]) : std::nullopt;
    if (!count || *count < 0 || *count > size) return;
    ++first;
    last = first + *count - 1;
  } else if (spec.last >= 0) {
    last = first + spec.last;
  } else if (spec.limit == 0) {
    last = size + spec.last;
  } else {
    last = first + (size - first) / spec.limit + spec.last;
  }
  // Such a request has a syntax error. Redis checks none of its keys then. Here, those of the other
  // specifications are checked.
  if (last >= size || last < first || first >= size) return;
  for (std::int64_t i = first; i <= last; i += spec.step)
    keys.push_back({static_cast<std::size_t>(i), spec.uses});
}

}  // namespace

std::vector<KeyWord> key_words(const AclCommand& command, Arguments words) {
  if (!fits(command.arity, words.size())) return {};
  if (command.name == "set") return keys_of_set(words);
  if (command.name == "bitfield") return keys_of_bitfield(words);
  if (command.name == "sort") return keys_of_sort(words);
  if (command.name == "sort_ro") return {{1, key_use::kReads}};
  if (command.name == "migrate") return keys_of_migrate(words);
  std::vector<KeyWord> keys;
  for (const KeySpec& spec : command.keys)
    if ((spec.uses & key_use::kNotKey) == 0) append_keys(spec, words, keys);
  return keys;
}

std::vector<ChannelWord> channel_words(const AclCommand& command, Arguments words) {
  if ((command.categories & category::kPubsub) == 0) return {};
  const bool is_publish = command.name == "publish" || command.name == "spublish";
  const bool is_pattern = command.name == "psubscribe";
  if (!is_publish && !is_pattern && command.name != "subscribe" && command.name != "ssubscribe") return {};
  std::vector<ChannelWord> channels;
  for (std::size_t i = 1; i < (is_publish ? std::min<std::size_t>(2, words.size()) : words.size()); ++i)
    channels.push_back({i, is_pattern});
  return channels;
}

}  // namespace rdmc::kv
