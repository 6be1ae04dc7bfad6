// The command ACL, and the changes of users that all servers execute.
#include <algorithm>
#include <array>
#include <ranges>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

constexpr std::int64_t kMostPasswordBits = 4096;

constexpr std::string_view kNoAclFile =
    "ERR This server has no ACL file. Start it with the option --acl-file. The users are a part of the data, "
    "so "
    "with --dir they are on disk without that.";

constexpr auto kAclHelp = std::to_array<std::string_view>({
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
});

void describe_selector(const Selector& selector, ReplyWriter& reply) {
  reply.bulk("commands");
  reply.bulk(selector.commands_text());
  reply.bulk("keys");
  reply.bulk(selector.keys_text());
  reply.bulk("channels");
  reply.bulk(selector.channels_text());
}

void get_user(const User* user, ReplyWriter& reply) {
  if (user == nullptr) return reply.null();
  reply.map(6);
  reply.bulk("flags");
  const auto flags = user->flags();
  reply.set(flags.size());
  for (const std::string_view flag : flags) reply.bulk(flag);
  reply.bulk("passwords");
  reply.array(user->passwords().size());
  for (const std::string& password : user->passwords()) reply.bulk(password);
  describe_selector(user->selectors()[0], reply);
  reply.bulk("selectors");
  reply.array(user->selectors().size() - 1);
  for (std::size_t i = 1; i < user->selectors().size(); ++i) {
    reply.map(3);
    describe_selector(user->selectors()[i], reply);
  }
}

void list_categories(Arguments words, ReplyWriter& reply) {
  if (words.size() == 2) {
    reply.array(kCategoryNames.size());
    for (const std::string_view name : kCategoryNames) reply.bulk(name);
    return;
  }
  const std::uint32_t category = category_of(words[2]);
  if (category == 0)
    return reply.error("ERR Unknown category '" + std::string(words[2].substr(0, 128)) + "'");
  const auto has_it = [&](const AclCommand& command) { return (command.categories & category) != 0; };
  reply.array(static_cast<std::size_t>(std::ranges::count_if(all_acl_commands(), has_it)));
  for (const AclCommand& command : all_acl_commands())
    if (has_it(command)) reply.bulk(command.name);
}

void dry_run(const Users& users, Arguments words, ReplyWriter& reply) {
  const User* const user = users.find(words[2]);
  if (user == nullptr) return reply.error("ERR User '" + std::string(words[2]) + "' not found");
  const Arguments called = words.subspan(3);
  const AclCommand* const command = acl_command_of(called);
  const bool is_unknown_subcommand = command != nullptr && command->has_subcommands && called.size() >= 2;
  if (command == nullptr || is_unknown_subcommand)
    return reply.error("ERR Command '" + std::string(called[0]) + "' not found");
  if (!fits(command->arity, called.size())) return wrong_arguments(reply, command->name);
  CheckedRequest request(*command, called);
  std::size_t index = 0;
  const auto denied = [&](std::string_view what, std::string_view name, std::string_view kind) {
    reply.bulk("This user has no permissions to " + std::string(what) + " the '" + std::string(name) + "' " +
               std::string(kind));
  };
  switch (user->check(request, index)) {
    case Permission::granted: return reply.ok();
    case Permission::denied_command: return denied("run", command->name, "command");
    case Permission::denied_key: return denied("access", called[index], "key");
    case Permission::denied_channel: return denied("access", called[index], "channel");
  }
}

void generate_password(const ServiceOptions& options, Arguments words, ReplyWriter& reply) {
  std::int64_t bits = 256;
  if (words.size() == 3) {
    const auto asked = integer_or_error(words[2], reply);
    if (!asked) return;
    bits = *asked;
  }
  if (bits <= 0 || bits > kMostPasswordBits)
    return reply.error(
        "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up "
        "to " +
        std::to_string(kMostPasswordBits));
  std::array<std::byte, kMostPasswordBits / 8> random;
  const auto digits = static_cast<std::size_t>((bits + 3) / 4);
  if (!options.fill_random || !options.fill_random(std::span(random).first((digits + 1) / 2)))
    return reply.error("ERR this server has no random numbers");
  std::string text;
  for (std::size_t i = 0; i < digits; ++i)
    text += "0123456789abcdef"[std::to_integer<unsigned>(random[i / 2] >> (4 * (i % 2))) & 15];
  reply.bulk(text);
}

}  // namespace

// -- Changes --

/// Every server executes this, with the same result. `client` is null at the servers that are not its own.
void Service::change_users(Arguments words, Client* client, ReplyWriter& reply) {
  if (is_word(words[1], "setuser")) {
    if (words.size() < 3) return unknown_subcommand(reply, "ACL", words[1]);
    if (!is_plain_name(words[2])) return reply.error("ERR Usernames can't contain spaces or null characters");
    const auto set = users_.set(words[2], words.subspan(3));
    if (!set) return reply.error("ERR " + set.error());
    reply.ok();
  } else if (is_word(words[1], "deluser")) {
    const Arguments names = words.subspan(2);
    if (std::ranges::find(names, Users::kDefault) != names.end())
      return reply.error("ERR The 'default' user cannot be removed");
    std::int64_t removed = 0;
    for (const std::string_view name : names) removed += users_.remove(name);
    reply.integer(removed);
  } else {
    // The server of the client has read and checked the file (without_secrets()).
    if (words.size() != 3) return reply.error(kNoAclFile);
    VarintReader in(std::as_bytes(std::span(words[2])));
    Users loaded;
    if (!loaded.load(in)) return reply.error("ERR the users of the ACL file are damaged");
    users_.replace(loaded);
    if (order_ != nullptr || is_alone()) news_.emplace_back("the users were replaced by ACL LOAD");
    reply.ok();
  }
  users_have_changed(client);
}

// -- The other subcommands --

void Service::acl(Client& client, Arguments words, ReplyWriter& reply) {
  const std::string what = to_lower(words[1]);
  if (what == "whoami" && words.size() == 2) return reply.bulk(name_of_user(client));
  if (what == "getuser" && words.size() == 3) return get_user(users_.find(words[2]), reply);
  if ((what == "list" || what == "users") && words.size() == 2) {
    reply.array(users_.all().size());
    for (const auto& [name, user] : users_.all()) reply.bulk(what == "users" ? name : acl_line_of(user));
    return;
  }
  if (what == "cat" && words.size() <= 3) return list_categories(words, reply);
  if (what == "dryrun" && words.size() >= 4) return dry_run(users_, words, reply);
  if (what == "genpass" && words.size() <= 3) return generate_password(options_, words, reply);
  if (what == "log" && words.size() <= 3) return show_acl_log(words, reply);
  if (what == "help" && words.size() == 2) return help(reply, "ACL", kAclHelp);
  if (what == "save" && words.size() == 2) {
    if (options_.acl_file == nullptr) return reply.error(kNoAclFile);
    const auto written = options_.acl_file->write(acl_file_of(users_));
    if (written) return reply.ok();
    warnings_.push_back("cannot save the users: " + written.error().what);
    return reply.error(
        "ERR There was an error trying to save the ACLs. Please check the server logs for more information");
  }
  unknown_subcommand(reply, "ACL", words[1]);
}

void Service::show_acl_log(Arguments words, ReplyWriter& reply) {
  std::int64_t count = 10;
  if (words.size() == 3 && is_word(words[2], "reset")) {
    acl_log_.clear();
    return reply.ok();
  }
  if (words.size() == 3) {
    const auto asked = integer_or_error(words[2], reply);
    if (!asked) return;
    count = std::max<std::int64_t>(*asked, 0);
  }
  count = std::min(count, std::ssize(acl_log_.entries()));
  reply.array(static_cast<std::size_t>(count));
  for (const AclLog::Entry& entry : std::views::take(acl_log_.entries(), count)) {
    constexpr std::array<std::string_view, 4> kReasons = {"command", "key", "channel", "auth"};
    reply.map(7);
    reply.bulk("count");
    reply.integer(static_cast<std::int64_t>(entry.count));
    reply.bulk("reason");
    reply.bulk(kReasons[static_cast<std::size_t>(entry.reason)]);
    reply.bulk("context");
    reply.bulk(entry.context == AclLog::Context::multi ? "multi" : "toplevel");
    reply.bulk("object");
    reply.bulk(entry.object);
    reply.bulk("username");
    reply.bulk(entry.user);
    reply.bulk("age-seconds");
    reply.real(static_cast<double>(now_.steady - entry.time) / 1000);
    reply.bulk("client-info");
    reply.bulk(entry.client);
  }
}

/// Another server asks before it joins (server/member_list.hpp). It has no password. If it has something
/// else, it gets what this server has, for the message to its operator: addresses and options, but nothing
/// secret.
void Service::same_members(Client&, Arguments words, ReplyWriter& reply) {
  const auto own = settings_.matching(std::to_array<std::string_view>({"rdmc-members"}));
  if (own.size() == 1 && own.begin()->second != words[1]) return reply.bulk(own.begin()->second);
  reply.integer(own.size() == 1);
}

}  // namespace rdmc::kv
