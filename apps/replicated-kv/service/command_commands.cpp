// The command COMMAND, which describes the commands of this service. What it says about categories and keys
// comes from the table of access control.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/access/acl_command.hpp"
#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

struct FlagName {
  std::uint32_t flag;
  std::string_view text;
};
using FlagNames = std::span<const FlagName>;

constexpr std::array<FlagName, 7> kFlagNames{{{flag::kWrite, "write"},
                                              {flag::kRead, "readonly"},
                                              {flag::kGrows, "denyoom"},
                                              {flag::kAdmin, "admin"},
                                              {flag::kPubSub, "pubsub"},
                                              {flag::kFast, "fast"},
                                              {flag::kBeforeAuth, "no_auth"}}};
constexpr std::array<FlagName, 11> kKeyFlagNames{{{key_use::kReadOnly, "RO"},
                                                  {key_use::kReadWrite, "RW"},
                                                  {key_use::kOverwrite, "OW"},
                                                  {key_use::kRemove, "RM"},
                                                  {key_use::kAccess, "access"},
                                                  {key_use::kUpdate, "update"},
                                                  {key_use::kInsert, "insert"},
                                                  {key_use::kDelete, "delete"},
                                                  {key_use::kNotKey, "not_key"},
                                                  {key_use::kIncomplete, "incomplete"},
                                                  {key_use::kVariable, "variable_flags"}}};

void describe_flags(std::uint32_t flags, FlagNames names, ReplyWriter& reply) {
  reply.set(static_cast<std::size_t>(
      std::ranges::count_if(names, [&](const FlagName& name) { return (flags & name.flag) != 0; })));
  for (const FlagName& name : names)
    if ((flags & name.flag) != 0) reply.simple(name.text);
}

void describe_categories(std::uint32_t categories, ReplyWriter& reply) {
  reply.set(static_cast<std::size_t>(std::popcount(categories)));
  for (std::size_t i = 0; i < kCategoryNames.size(); ++i)
    if ((categories & (1U << i)) != 0) reply.simple("@" + std::string(kCategoryNames[i]));
}

/// A part of a key specification: its type, and its numbers.
void describe_part(std::string_view part, std::string_view type,
                   std::initializer_list<std::pair<std::string_view, int>> numbers, ReplyWriter& reply) {
  reply.bulk(part);
  reply.map(2);
  reply.bulk("type");
  reply.bulk(type);
  reply.bulk("spec");
  reply.map(numbers.size());
  for (const auto& [name, number] : numbers) {
    reply.bulk(name);
    reply.integer(number);
  }
}

void describe_key_spec(const KeySpec& spec, ReplyWriter& reply) {
  reply.map(3);
  reply.bulk("flags");
  describe_flags(spec.uses, kKeyFlagNames, reply);
  switch (spec.begin) {
    case KeySpec::Begin::index: describe_part("begin_search", "index", {{"index", spec.at}}, reply); break;
    case KeySpec::Begin::unknown: describe_part("begin_search", "unknown", {}, reply); break;
    case KeySpec::Begin::keyword:
      reply.bulk("begin_search");
      reply.map(2);
      reply.bulk("type");
      reply.bulk("keyword");
      reply.bulk("spec");
      reply.map(2);
      reply.bulk("keyword");
      reply.bulk(spec.keyword);
      reply.bulk("startfrom");
      reply.integer(spec.at);
      break;
  }
  switch (spec.find) {
    case KeySpec::Find::range:
      describe_part("find_keys", "range",
                    {{"lastkey", spec.last}, {"keystep", spec.step}, {"limit", spec.limit}}, reply);
      break;
    case KeySpec::Find::number:
      describe_part("find_keys", "keynum", {{"keynumidx", 0}, {"firstkey", 1}, {"keystep", 1}}, reply);
      break;
    case KeySpec::Find::unknown: describe_part("find_keys", "unknown", {}, reply); break;
  }
}

constexpr auto kCommandHelp = std::to_array<std::string_view>({
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the number of commands.",
    "DOCS [<command> ...]",
    "    Return an empty map: this server has no descriptions of commands.",
    "GETKEYS <command> [<arg> ...]",
    "    Return the keys of a command.",
    "GETKEYSANDFLAGS <command> [<arg> ...]",
    "    Return the keys of a command, and how the command uses them.",
    "INFO [<command> ...]",
    "    Return details about these commands, or about all.",
    "LIST",
    "    Return the names of all commands.",
});

struct Description {
  std::string_view name;
  int arity;
  std::uint32_t flags;
  int first, last, step;
};

/// `command` is null if Redis does not have the command.
void describe(const Description& what, const AclCommand* command, ReplyWriter& reply) {
  reply.array(10);
  reply.bulk(what.name);
  reply.integer(what.arity);
  describe_flags(what.flags, kFlagNames, reply);
  reply.integer(what.first);
  reply.integer(what.last);
  reply.integer(what.step);
  describe_categories(command == nullptr ? 0 : command->categories, reply);
  reply.array(0);  // hints for clients of Redis Cluster
  if (command == nullptr) {
    reply.array(0);
    return reply.array(0);
  }
  const auto specs = static_cast<std::size_t>(
      std::ranges::count_if(command->keys, [](const KeySpec& spec) { return spec.uses != 0; }));
  reply.set(specs);
  for (const KeySpec& spec : command->keys)
    if (spec.uses != 0) describe_key_spec(spec, reply);
  const auto subcommands = subcommands_of(*command);
  reply.array(subcommands.size());
  for (const AclCommand& subcommand : subcommands) {
    const KeySpec& key = subcommand.keys[0];
    const bool has_key = key.begin == KeySpec::Begin::index && key.find == KeySpec::Find::range;
    const std::uint32_t flags = ((subcommand.categories & category::kRead) != 0 ? flag::kRead : 0) |
                                ((subcommand.categories & category::kWrite) != 0 ? flag::kWrite : 0) |
                                ((subcommand.categories & category::kAdmin) != 0 ? flag::kAdmin : 0) |
                                ((subcommand.categories & category::kPubsub) != 0 ? flag::kPubSub : 0) |
                                ((subcommand.categories & category::kFast) != 0 ? flag::kFast : 0);
    describe({subcommand.name, subcommand.arity, flags, has_key ? key.at : 0, has_key ? key.at + key.last : 0,
              has_key ? key.step : 0},
             &subcommand, reply);
  }
}

void describe_command(const Command& command, ReplyWriter& reply) {
  describe({command.name, command.arity, command.flags, command.first, command.last, command.step},
           find_acl_command(command.name), reply);
}

/// COMMAND GETKEYS and COMMAND GETKEYSANDFLAGS.
void get_keys(Arguments words, bool has_flags, ReplyWriter& reply) {
  const Command* const one = find_command(words[0]);
  const AclCommand* const called = acl_command_of(words);
  if (one == nullptr || called == nullptr) return reply.error("ERR Invalid command specified");
  if (called->keys[0].uses == 0) return reply.error("ERR The command has no key arguments");
  if (!fits(called->arity, words.size()))
    return reply.error("ERR Invalid number of arguments specified for command");
  const auto keys = key_words(*called, words);
  if (keys.empty()) return reply.error("ERR Invalid arguments specified for command");
  reply.array(keys.size());
  for (const KeyWord& key : keys) {
    if (has_flags) reply.array(2);
    reply.bulk(words[key.index]);
    if (has_flags) describe_flags(key.uses, kKeyFlagNames, reply);
  }
}

}  // namespace

void Service::command(Client&, Arguments words, ReplyWriter& reply) {
  const auto all = all_commands();
  if (words.size() == 1) {
    reply.array(all.size());
    for (const Command* const one : all) describe_command(*one, reply);
    return;
  }
  const std::string what = to_lower(words[1]);
  if (what == "count" && words.size() == 2) return reply.integer(static_cast<std::int64_t>(all.size()));
  if (what == "list" && words.size() == 2) {
    reply.array(all.size());
    for (const Command* const one : all) reply.bulk(one->name);
    return;
  }
  if (what == "info") {
    reply.array(words.size() == 2 ? all.size() : words.size() - 2);
    for (const Command* const one : words.size() == 2 ? all : std::span<const Command* const>())
      describe_command(*one, reply);
    for (const std::string_view name : words.subspan(2)) {
      const Command* const one = find_command(name);
      one == nullptr ? reply.null_array() : describe_command(*one, reply);
    }
    return;
  }
  if (what == "docs") return reply.map(0);
  if ((what == "getkeys" || what == "getkeysandflags") && words.size() >= 3)
    return get_keys(words.subspan(2), what == "getkeysandflags", reply);
  if (what == "help" && words.size() == 2) return help(reply, "COMMAND", kCommandHelp);
  unknown_subcommand(reply, "COMMAND", words[1]);
}

}  // namespace rdmc::kv
