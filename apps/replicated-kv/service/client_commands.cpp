// The commands that Service executes for a client. They do not change the databases. This file has their
// table, and those that concern the connection. server_commands.cpp, logins.cpp and acl_commands.cpp have the
// others.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

using namespace flag;
constexpr std::array kClientCommands = {
    Command{"acl", -2, kClient},
    Command{"auth", -2, kClient | kFast | kBeforeAuth},
    Command{"client", -2, kClient},
    Command{"command", -1, kClient},
    Command{"bgrewriteaof", 1, kClient | kAdmin},
    Command{"config", -2, kClient | kAdmin},
    Command{"debug", -2, kClient | kAdmin},
    Command{"discard", 1, kClient | kFast | kInMulti},
    Command{"echo", 2, kClient | kFast},
    Command{"exec", 1, kClient | kInMulti},
    Command{"function", -2, kClient},
    Command{"hello", -1, kClient | kFast | kBeforeAuth},
    Command{"info", -1, kClient},
    Command{"lastsave", 1, kClient | kFast | kAdmin},
    Command{"latency", -2, kClient | kAdmin},
    Command{"memory", -2, kClient},
    Command{"multi", 1, kClient | kFast | kInMulti},
    Command{"ping", -1, kClient | kFast | kWhileSubscribed},
    Command{"psubscribe", -2, kClient | kPubSub | kWhileSubscribed},
    Command{"pubsub", -2, kClient | kPubSub},
    Command{"punsubscribe", -1, kClient | kPubSub | kWhileSubscribed},
    Command{"quit", -1, kClient | kFast | kBeforeAuth | kInMulti | kWhileSubscribed},
    Command{"rdmc.same-members", 2, kClient | kFast | kBeforeAuth},
    Command{"reset", 1, kClient | kFast | kBeforeAuth | kInMulti | kWhileSubscribed},
    Command{"role", 1, kClient | kFast},
    Command{"select", 2, kClient | kFast},
    Command{"slowlog", -2, kClient | kAdmin},
    Command{"subscribe", -2, kClient | kPubSub | kWhileSubscribed},
    Command{"time", 1, kClient | kFast},
    Command{"unsubscribe", -1, kClient | kPubSub | kWhileSubscribed},
    Command{"unwatch", 1, kClient | kFast},
    Command{"wait", 3, kClient},
    Command{"watch", -2, kClient | kFast | kInMulti, 1, -1, 1},
};

constexpr auto kClientHelp = std::to_array<std::string_view>({
    "GETNAME",
    "    Return the name of this connection.",
    "ID",
    "    Return the number of this connection.",
    "INFO",
    "    Return information about this connection.",
    "KILL <ip:port>",
    "    End the connection of the client with this address.",
    "KILL <option> <value> [<option> <value> ...]",
    "    End connections. The options are: ID <number>, ADDR <ip:port>, USER <name>,",
    "    TYPE <normal|pubsub>, SKIPME <yes|no>.",
    "LIST",
    "    Return information about all connections of this server.",
    "NO-EVICT <ON|OFF>",
    "    Has no effect.",
    "SETINFO <option> <value>",
    "    Has no effect.",
    "SETNAME <name>",
    "    Give this connection a name.",
    "UNBLOCK <number> [TIMEOUT|ERROR]",
    "    End the wait of a client that waits for a key.",
});

}  // namespace

std::span<const Command> client_commands() {
  return kClientCommands;
}

const std::unordered_map<std::string_view, Service::ClientCommand>& Service::client_table() {
  static const std::unordered_map<std::string_view, ClientCommand> kTable{
      {"acl", &Service::acl},
      {"auth", &Service::auth},
      {"bgrewriteaof", &Service::rewrite_log},
      {"client", &Service::client},
      {"command", &Service::command},
      {"config", &Service::config},
      {"debug", &Service::debug},
      {"echo", &Service::echo},
      {"function", &Service::function},
      {"hello", &Service::hello},
      {"info", &Service::info},
      {"lastsave", &Service::last_save},
      {"latency", &Service::latency},
      {"memory", &Service::memory},
      {"ping", &Service::ping},
      {"quit", &Service::quit},
      {"rdmc.same-members", &Service::same_members},
      {"reset", &Service::reset},
      {"role", &Service::role},
      {"select", &Service::select},
      {"slowlog", &Service::slowlog},
      {"subscribe", &Service::subscribe<PubSub::Kind::channel>},
      {"psubscribe", &Service::subscribe<PubSub::Kind::pattern>},
      {"unsubscribe", &Service::unsubscribe<PubSub::Kind::channel>},
      {"punsubscribe", &Service::unsubscribe<PubSub::Kind::pattern>},
      {"pubsub", &Service::pubsub},
      {"time", &Service::time_of_day},
      {"wait", &Service::wait},
      {"unwatch", &Service::unwatch_in_multi},
  };
  return kTable;
}

// -- The connection --

void Service::ping(Client& client, Arguments words, ReplyWriter& reply) {
  if (words.size() > 2) return wrong_arguments(reply, "ping");
  if (!client.is_resp3 && pubsub_.count(client.number) > 0) {
    reply.array(2);
    reply.bulk("pong");
    return reply.bulk(words.size() == 2 ? words[1] : "");
  }
  words.size() == 2 ? reply.bulk(words[1]) : reply.simple("PONG");
}

void Service::echo(Client&, Arguments words, ReplyWriter& reply) {
  reply.bulk(words[1]);
}

void Service::quit(Client& client, Arguments, ReplyWriter& reply) {
  client.is_closing = true;
  reply.ok();
}

void Service::reset(Client& client, Arguments, ReplyWriter& reply) {
  leave_multi(client);
  unwatch(client);
  pubsub_.forget(client.number);
  client.database = 0;
  client.is_resp3 = false;
  client.name.clear();
  client.user = 0;
  if (is_alone()) use_default_user(client);
  reply.simple("RESET");
}

void Service::select(Client& client, Arguments words, ReplyWriter& reply) {
  const auto number = to_integer(words[1]);
  if (!number) return reply.error("ERR invalid DB index");
  if (*number < 0 || *number >= Databases::kCount) return reply.error("ERR DB index is out of range");
  client.database = static_cast<std::uint32_t>(*number);
  reply.ok();
}

std::string Service::name_of_user(const Client& client) const {
  const User* const user = client.user == 0 ? &users_.default_user() : users_.find(client.user);
  return user == nullptr ? "(removed)" : user->name();
}

std::string Service::describe(const Client& client) const {
  const auto number = [](auto value) { return std::to_string(value); };
  return "id=" + number(client.number) + " addr=" + client.address + " name=" + client.name +
         " age=" + number((now_.steady - client.connected_at) / 1000) +
         " idle=" + number((now_.steady - client.last_request) / 1000) +
         " flags=" + (client.is_in_multi ? "x" : "N") + " db=" + number(client.database) +
         " sub=" + number(pubsub_.count(client.number, PubSub::Kind::channel)) +
         " psub=" + number(pubsub_.count(client.number, PubSub::Kind::pattern)) +
         " ssub=0 multi=" + (client.is_in_multi ? number(client.queued.size()) : "-1") +
         " qbuf=" + number(client.parser.waiting_bytes()) +
         " qbuf-free=" + number(client.parser.memory() - client.parser.waiting_bytes()) +
         " obl=" + number(client.output.size()) + " oll=" + number(client.answers.size()) +
         " omem=" + number(client.output.size() + client.answer_bytes) +
         " tot-mem=" + number(client.parser.memory() + client.output.capacity() + client.answer_bytes) +
         " cmd=" + client.last_command + " user=" + name_of_user(client) +
         " redir=-1 resp=" + (client.is_resp3 ? "3" : "2");
}

void Service::client(Client& client, Arguments words, ReplyWriter& reply) {
  const std::string what = to_lower(words[1]);
  if (what == "id" && words.size() == 2) return reply.integer(static_cast<std::int64_t>(client.number));
  if (what == "getname" && words.size() == 2) {
    if (client.name.empty()) return reply.null();
    return reply.bulk(client.name);
  }
  if (what == "setname" && words.size() == 3) {
    if (const auto error = error_in_client_name(words[2]); !error.empty()) return reply.error(error);
    client.name = words[2];
    return reply.ok();
  }
  if (what == "info" && words.size() == 2) return reply.verbatim(describe(client) + "\n");
  if (what == "list") {
    std::vector<const Client*> all;
    for (const auto& [number, one] : clients_) all.push_back(one.get());
    std::ranges::sort(all, {}, [](const Client* one) { return one->number; });
    std::string text;
    for (const Client* const one : all) text += describe(*one) + "\n";
    return reply.verbatim(text);
  }
  if (what == "kill" && words.size() >= 3) {
    std::int64_t killed = 0;
    const bool is_old = words.size() == 3;
    for (const auto& [number, one] : clients_) {
      bool matches_all = is_old ? one->address == words[2] : words.size() % 2 == 0;
      bool skips_me = !is_old;
      for (std::size_t i = 2; !is_old && i + 1 < words.size(); i += 2) {
        if (is_word(words[i], "id"))
          matches_all = matches_all && to_integer(words[i + 1]) == static_cast<std::int64_t>(number);
        else if (is_word(words[i], "addr"))
          matches_all = matches_all && one->address == words[i + 1];
        else if (is_word(words[i], "skipme"))
          skips_me = is_word(words[i + 1], "yes");
        else if (is_word(words[i], "type"))
          matches_all = matches_all && is_word(words[i + 1], pubsub_.count(number) > 0 ? "pubsub" : "normal");
        else if (is_word(words[i], "user"))
          matches_all = matches_all && words[i + 1] == name_of_user(*one);
        else
          return reply.error(kSyntax);
      }
      if (skips_me && one.get() == &client) continue;
      if (!matches_all) continue;
      ++killed;
      end_client(*one, &client);
    }
    if (!is_old) return reply.integer(killed);
    if (killed == 0) return reply.error("ERR No such client");
    return reply.ok();
  }
  if (what == "unblock" && (words.size() == 3 || words.size() == 4)) {
    const auto number = integer_or_error(words[2], reply);
    if (!number) return;
    const bool is_error = words.size() == 4 && is_word(words[3], "error");
    if (words.size() == 4 && !is_error && !is_word(words[3], "timeout"))
      return reply.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    Client* const other = find(static_cast<std::uint64_t>(*number));
    if (other == nullptr || !other->may_be_waiting || std::exchange(other->is_being_unblocked, true))
      return reply.integer(0);
    stop_waiting(other->number, is_error);
    return reply.integer(1);
  }
  if (what == "no-evict" || what == "setinfo") return reply.ok();
  if (what == "help" && words.size() == 2) return help(reply, "CLIENT", kClientHelp);
  unknown_subcommand(reply, "CLIENT", words[1]);
}

}  // namespace rdmc::kv
