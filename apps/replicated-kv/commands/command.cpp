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
  return fits(command.arity, words);
}

bool fits(int arity, std::size_t words) {
  return arity >= 0 ? words == static_cast<std::size_t>(arity) : words >= static_cast<std::size_t>(-arity);
}

}  // namespace rdmc::kv
