// The part of Selector for the rules of commands, and for the text that gives these rules again. The text is
// found as Redis 7.0 does it: by the categories that fit best, and then by single commands.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "apps/replicated-kv/access/selector.hpp"
#include "apps/replicated-kv/commands/arguments.hpp"

namespace rdmc::kv {

/// The commands of each category.
struct CategoryCommands {
  CategoryCommands() {
    assert(all_acl_commands().size() <= Selector::kMostCommands);
    for (const AclCommand& command : all_acl_commands()) {
      const auto id = static_cast<std::size_t>(command.id);
      all.set(id);
      for (std::size_t i = 0; i < kCategoryNames.size(); ++i) {
        if ((command.categories & (1U << i)) == 0) continue;
        of[i].set(id);
        with_subcommands[i].set(id);
        for (const AclCommand& subcommand : subcommands_of(command))
          with_subcommands[i].set(static_cast<std::size_t>(subcommand.id));
      }
    }
  }
  Selector::Commands all;
  std::array<Selector::Commands, kCategoryNames.size()> of, with_subcommands;
};

namespace {

const CategoryCommands& category_commands() {
  static const CategoryCommands kCommands;
  return kCommands;
}

}  // namespace

bool Selector::permits_everything() const {
  return has_all_keys_ && has_all_channels_ && permits_future_commands_ &&
         commands_ == category_commands().all;
}

void Selector::set_all_commands(bool value) {
  commands_ = value ? category_commands().all : Commands();
  permits_future_commands_ = value;
  first_arguments_.clear();
}

void Selector::set_command(const AclCommand& command, bool value) {
  commands_[static_cast<std::size_t>(command.id)] = value;
  first_arguments_.erase(command.id);
  for (const AclCommand& subcommand : subcommands_of(command))
    commands_[static_cast<std::size_t>(subcommand.id)] = value;
}

bool Selector::set_category(std::string_view name, bool value) {
  const std::uint32_t category = category_of(name);
  if (category == 0) return false;
  const auto index = static_cast<std::size_t>(std::countr_zero(category));
  const Commands& changed = category_commands().with_subcommands[index];
  commands_ = value ? commands_ | changed : commands_ & ~changed;
  std::erase_if(first_arguments_, [&](const auto& one) {
    return category_commands().of[index][static_cast<std::size_t>(one.first)];
  });
  return true;
}

std::expected<void, RuleError> Selector::apply_command(std::string_view rule) {
  const bool value = rule[0] == '+';
  const std::string_view name = rule.substr(1);
  if (name.starts_with('@')) {
    if (!set_category(name.substr(1), value)) return std::unexpected(RuleError::unknown_command);
    return {};
  }
  const std::size_t bar = name.rfind('|');
  const AclCommand* command = find_acl_command(name);
  if (!value || bar == std::string_view::npos) {
    if (command == nullptr) return std::unexpected(RuleError::unknown_command);
    set_command(*command, value);
    return {};
  }
  const std::string_view argument = name.substr(bar + 1);
  const AclCommand* const parent = find_acl_command(name.substr(0, bar));
  if (parent == nullptr) return std::unexpected(RuleError::unknown_command);
  if (parent->is_subcommand()) return std::unexpected(RuleError::first_argument_of_subcommand);
  if (argument.empty()) return std::unexpected(RuleError::syntax);
  if (parent->has_subcommands) {
    if (command == nullptr) return std::unexpected(RuleError::unknown_command);
    set_command(*command, true);
    return {};
  }
  auto& words = first_arguments_[parent->id];
  if (std::ranges::none_of(words,
                           [&](const std::string& word) { return to_lower(word) == to_lower(argument); }))
    words.emplace_back(argument);
  return {};
}

std::string Selector::commands_text() const {
  const CategoryCommands& categories = category_commands();
  const bool is_additive = !permits_future_commands_;
  // `written` is what the text so far means. `left` is what the categories so far have not dealt with.
  Selector written(false);
  written.set_all_commands(!is_additive);
  std::string text = is_additive ? "-@all" : "+@all";
  Commands left = commands_;
  for (std::array<bool, kCategoryNames.size()> is_used{};;) {
    std::size_t best = kCategoryNames.size(), least_different = SIZE_MAX, most_same = 0;
    for (std::size_t i = 0; i < kCategoryNames.size(); ++i) {
      if (is_used[i]) continue;
      const std::size_t on = (left & categories.of[i]).count();
      const std::size_t off = categories.of[i].count() - on;
      const std::size_t different = is_additive ? off : on, same = is_additive ? on : off;
      if (same <= different || different > least_different ||
          (different == least_different && same <= most_same))
        continue;
      best = i;
      least_different = different;
      most_same = same;
    }
    if (best == kCategoryNames.size()) break;
    is_used[best] = true;
    written.set_category(kCategoryNames[best], is_additive);
    const Commands& changed = categories.with_subcommands[best];
    left = is_additive ? left & ~changed : left | changed;
    text += (is_additive ? " +@" : " -@") + std::string(kCategoryNames[best]);
  }
  for (const AclCommand& command : all_acl_commands()) {
    const auto id = static_cast<std::size_t>(command.id);
    if (commands_[id] != written.commands_[id]) {
      text += (commands_[id] ? " +" : " -") + std::string(command.name);
      written.set_command(command, commands_[id]);
    }
    const auto first = first_arguments_.find(command.id);
    if (commands_[id] || first == first_arguments_.end()) continue;
    for (const std::string& word : first->second) text += " +" + std::string(command.name) + "|" + word;
  }
  return text;
}

}  // namespace rdmc::kv
