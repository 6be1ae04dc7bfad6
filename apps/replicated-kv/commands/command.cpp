#include "apps/replicated-kv/commands/command.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "apps/replicated-kv/commands/arguments.hpp"

namespace rdmc::kv {

namespace {

constexpr std::size_t kMostNameBytes = 32;

struct Table {
  Table() {
    for (const auto& commands :
         {string_commands(), key_commands(), hash_commands(), list_commands(), set_commands(),
          sorted_set_commands(), sorted_set_range_commands(), sorted_set_algebra_commands(),
          blocking_commands(), bit_commands(), bit_field_commands(), dump_commands(), hyperloglog_commands(),
          sort_commands(), client_commands()})
      for (const Command& command : commands) all.push_back(&command);
    std::ranges::sort(all, {}, &Command::name);
    for (const Command* const command : all) by_name.emplace(command->name, command);
  }
  std::vector<const Command*> all;
  std::unordered_map<std::string_view, const Command*> by_name;
};

const Table& table() {
  static const Table kTable;
  return kTable;
}

}  // namespace

std::span<const Command* const> all_commands() {
  return table().all;
}

const Command* find_command(std::string_view name) {
  if (name.size() > kMostNameBytes) return nullptr;
  std::array<char, kMostNameBytes> lower;
  for (std::size_t i = 0; i < name.size(); ++i)
    lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? static_cast<char>(name[i] - 'A' + 'a') : name[i];
  const auto known = table().by_name.find({lower.data(), name.size()});
  return known == table().by_name.end() ? nullptr : known->second;
}

bool fits(const Command& command, std::size_t words) {
  return command.arity >= 0 ? words == static_cast<std::size_t>(command.arity)
                            : words >= static_cast<std::size_t>(-command.arity);
}

namespace {

/// The commands whose keys follow the number of the keys, and which word this number is.
constexpr std::array<std::pair<std::string_view, std::size_t>, 12> kNumbered{{{"blmpop", 2},
                                                                              {"bzmpop", 2},
                                                                              {"lmpop", 1},
                                                                              {"sintercard", 1},
                                                                              {"zdiff", 1},
                                                                              {"zdiffstore", 2},
                                                                              {"zinter", 1},
                                                                              {"zintercard", 1},
                                                                              {"zinterstore", 2},
                                                                              {"zmpop", 1},
                                                                              {"zunion", 1},
                                                                              {"zunionstore", 2}}};

}  // namespace

std::vector<std::string_view> keys_of(const Command& command, Arguments words) {
  std::vector<std::string_view> keys;
  const auto size = static_cast<int>(words.size());
  const int last = command.last < 0 ? size + command.last : command.last;
  for (int i = command.first; command.step != 0 && i <= last && i < size; i += command.step)
    keys.push_back(words[static_cast<std::size_t>(i)]);
  const auto numbered =
      std::ranges::find(kNumbered, command.name, &std::pair<std::string_view, std::size_t>::first);
  if (numbered != kNumbered.end()) {
    const std::size_t at = numbered->second;
    const auto count = at < words.size() ? to_integer(words[at]) : std::nullopt;
    if (count && *count > 0 && static_cast<std::size_t>(*count) < words.size() - at)
      for (const std::string_view key : words.subspan(at + 1, static_cast<std::size_t>(*count)))
        keys.push_back(key);
  }
  // Only the last STORE counts. The words after LIMIT, BY and GET are no options.
  std::optional<std::string_view> target;
  for (std::size_t i = 2; command.name == "sort" && i < words.size(); ++i) {
    const std::string name = to_lower(words[i]);
    if (name == "store" && i + 1 < words.size()) target = words[i + 1];
    i += name == "limit" ? 2 : name == "by" || name == "get" || name == "store" ? 1 : 0;
  }
  if (target) keys.push_back(*target);
  return keys;
}

}  // namespace rdmc::kv
