#include "apps/replicated-kv/access/acl_command.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "apps/replicated-kv/commands/arguments.hpp"

namespace rdmc::kv {

namespace {

/// No name of a command is longer.
constexpr std::size_t kMostNameBytes = 64;

/// The name of the command before the '|' of a subcommand.
std::string_view command_part(std::string_view name) {
  return name.substr(0, name.find('|'));
}

struct AclTable {
  AclTable() {
    for (const auto rows : {acl_rows_of_data(), acl_rows_of_servers()})
      all.insert(all.end(), rows.begin(), rows.end());
    // '|' comes after all letters, so names are compared by their parts.
    std::ranges::sort(all, [](const AclCommand& a, const AclCommand& b) {
      const std::string_view left = command_part(a.name), right = command_part(b.name);
      return left != right ? left < right : a.name < b.name;
    });
    for (std::size_t i = 0; i < all.size(); ++i) {
      AclCommand& command = all[i];
      command.id = static_cast<int>(i);
      by_name.emplace(command.name, i);
      if (!command.name.contains('|')) continue;
      command.parent = static_cast<int>(by_name.at(command_part(command.name)));
      all[static_cast<std::size_t>(command.parent)].has_subcommands = true;
    }
  }
  std::vector<AclCommand> all;
  std::unordered_map<std::string_view, std::size_t> by_name;
};

const AclTable& acl_table() {
  static const AclTable kTable;
  return kTable;
}

}  // namespace

std::uint32_t category_of(std::string_view name) {
  for (std::size_t i = 0; i < kCategoryNames.size(); ++i)
    if (is_word(name, kCategoryNames[i])) return 1U << i;
  return 0;
}

std::span<const AclCommand> all_acl_commands() {
  return acl_table().all;
}

const AclCommand* find_acl_command(std::string_view name) {
  if (name.size() > kMostNameBytes) return nullptr;
  const auto known = acl_table().by_name.find(to_lower(name));
  return known == acl_table().by_name.end() ? nullptr : &acl_table().all[known->second];
}

const AclCommand* acl_command_of(Arguments words) {
  const AclCommand* const command = words[0].contains('|') ? nullptr : find_acl_command(words[0]);
  if (command == nullptr || !command->has_subcommands || words.size() < 2) return command;
  if (words[1].size() > kMostNameBytes) return command;
  const AclCommand* const subcommand =
      find_acl_command(std::string(command->name) + "|" + std::string(words[1]));
  return subcommand == nullptr ? command : subcommand;
}

std::span<const AclCommand> subcommands_of(const AclCommand& command) {
  const auto all = all_acl_commands();
  const auto first = static_cast<std::size_t>(command.id) + 1;
  std::size_t end = first;
  while (end < all.size() && all[end].parent == command.id) ++end;
  return all.subspan(first, end - first);
}

}  // namespace rdmc::kv
