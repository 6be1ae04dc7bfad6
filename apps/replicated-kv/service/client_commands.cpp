// The commands that Service executes for a client: they concern the client, its connection or the server, and
// do not change the databases.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

/// The version of Redis whose commands and replies this service follows.
constexpr std::string_view kRedisVersion = "7.0.15";

void wrong_arguments(ReplyWriter& reply, std::string_view command) {
  reply.error("ERR wrong number of arguments for '" + std::string(command) + "' command");
}

std::optional<std::int64_t> integer_or_error(std::string_view word, ReplyWriter& reply) {
  const auto number = to_integer(word);
  if (!number) reply.error(kNotAnInteger);
  return number;
}

void unknown_subcommand(ReplyWriter& reply, std::string_view command, std::string_view what) {
  reply.error("ERR unknown subcommand or wrong number of arguments for '" + std::string(what) + "'. Try " +
              std::string(command) + " HELP.");
}

void describe_command(const Command& command, ReplyWriter& reply) {
  struct Name {
    std::uint32_t flag;
    std::string_view text;
  };
  constexpr std::array<Name, 7> kNames{{{flag::kWrite, "write"},
                                        {flag::kRead, "readonly"},
                                        {flag::kGrows, "denyoom"},
                                        {flag::kAdmin, "admin"},
                                        {flag::kPubSub, "pubsub"},
                                        {flag::kFast, "fast"},
                                        {flag::kBeforeAuth, "no_auth"}}};
  reply.array(6);
  reply.bulk(command.name);
  reply.integer(command.arity);
  reply.set(static_cast<std::size_t>(
      std::ranges::count_if(kNames, [&](const Name& name) { return command.has(name.flag); })));
  for (const Name& name : kNames)
    if (command.has(name.flag)) reply.simple(name.text);
  reply.integer(command.first);
  reply.integer(command.last);
  reply.integer(command.step);
}

using namespace flag;
constexpr std::array kClientCommands = {
    Command{"auth", -2, kClient | kFast | kBeforeAuth},
    Command{"client", -2, kClient},
    Command{"command", -1, kClient},
    Command{"config", -2, kClient | kAdmin},
    Command{"debug", -2, kClient | kAdmin},
    Command{"discard", 1, kClient | kFast | kInMulti},
    Command{"echo", 2, kClient | kFast},
    Command{"exec", 1, kClient | kInMulti},
    Command{"function", -2, kClient},
    Command{"hello", -1, kClient | kFast | kBeforeAuth},
    Command{"info", -1, kClient},
    Command{"memory", -2, kClient},
    Command{"multi", 1, kClient | kFast | kInMulti},
    Command{"ping", -1, kClient | kFast | kWhileSubscribed},
    Command{"psubscribe", -2, kClient | kPubSub | kWhileSubscribed},
    Command{"pubsub", -2, kClient | kPubSub},
    Command{"punsubscribe", -1, kClient | kPubSub | kWhileSubscribed},
    Command{"quit", -1, kClient | kFast | kBeforeAuth | kInMulti | kWhileSubscribed},
    Command{"reset", 1, kClient | kFast | kBeforeAuth | kInMulti | kWhileSubscribed},
    Command{"role", 1, kClient | kFast},
    Command{"select", 2, kClient | kFast},
    Command{"subscribe", -2, kClient | kPubSub | kWhileSubscribed},
    Command{"time", 1, kClient | kFast},
    Command{"unsubscribe", -1, kClient | kPubSub | kWhileSubscribed},
    Command{"unwatch", 1, kClient | kFast},
    Command{"wait", 3, kClient},
    Command{"watch", -2, kClient | kFast | kInMulti, 1, -1, 1},
};

}  // namespace

std::span<const Command> client_commands() {
  return kClientCommands;
}

const std::unordered_map<std::string_view, Service::ClientCommand>& Service::client_table() {
  static const std::unordered_map<std::string_view, ClientCommand> kTable{
      {"auth", &Service::auth},
      {"client", &Service::client},
      {"command", &Service::command},
      {"config", &Service::config},
      {"debug", &Service::debug},
      {"echo", &Service::echo},
      {"function", &Service::function},
      {"hello", &Service::hello},
      {"info", &Service::info},
      {"memory", &Service::memory},
      {"ping", &Service::ping},
      {"quit", &Service::quit},
      {"reset", &Service::reset},
      {"role", &Service::role},
      {"select", &Service::select},
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

void Service::auth(Client&, Arguments words, ReplyWriter& reply) {
  if (words.size() > 3) return reply.error(kSyntax);
  reply.error("ERR Client sent AUTH, but no password is set. Did you mean AUTH <username> <password>?");
}

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
  reply.simple("RESET");
}

void Service::select(Client& client, Arguments words, ReplyWriter& reply) {
  const auto number = to_integer(words[1]);
  if (!number) return reply.error("ERR invalid DB index");
  if (*number < 0 || *number >= Databases::kCount) return reply.error("ERR DB index is out of range");
  client.database = static_cast<std::uint32_t>(*number);
  reply.ok();
}

void Service::hello(Client& client, Arguments words, ReplyWriter& reply) {
  bool is_resp3 = client.is_resp3;
  std::optional<std::string_view> name;
  if (words.size() > 1) {
    const auto version = to_integer(words[1]);
    if (!version) return reply.error("ERR Protocol version is not an integer or out of range");
    if (*version != 2 && *version != 3) return reply.error("NOPROTO unsupported protocol version");
    is_resp3 = *version == 3;
  }
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (is_word(words[i], "setname") && i + 1 < words.size()) {
      name = words[++i];
    } else if (is_word(words[i], "auth") && i + 2 < words.size()) {
      return auth(client, words.first(3), reply);
    } else {
      return reply.error("ERR Syntax error in HELLO option '" + std::string(words[i]) + "'");
    }
  }
  if (name) client.name = *name;
  client.is_resp3 = is_resp3;
  std::string text;
  ReplyWriter answer(text, is_resp3);
  answer.map(7);
  answer.bulk("server");
  answer.bulk("redis");
  answer.bulk("version");
  answer.bulk(kRedisVersion);
  answer.bulk("proto");
  answer.integer(is_resp3 ? 3 : 2);
  answer.bulk("id");
  answer.integer(static_cast<std::int64_t>(client.number));
  answer.bulk("mode");
  answer.bulk("standalone");
  answer.bulk("role");
  answer.bulk(is_alone() || status_.is_main ? "master" : "replica");
  answer.bulk("modules");
  answer.array(0);
  reply.raw(text);
}

std::string Service::describe(const Client& client) const {
  const auto number = [](auto value) { return std::to_string(value); };
  return "id=" + number(client.number) + " addr=" + client.address + " name=" + client.name +
         " age=" + number((now_ - client.connected_at) / 1000) +
         " idle=" + number((now_ - client.last_request) / 1000) +
         " flags=" + (client.is_in_multi ? "x" : "N") + " db=" + number(client.database) +
         " sub=" + number(pubsub_.count(client.number, PubSub::Kind::channel)) +
         " psub=" + number(pubsub_.count(client.number, PubSub::Kind::pattern)) +
         " ssub=0 multi=" + (client.is_in_multi ? number(client.queued.size()) : "-1") +
         " qbuf=" + number(client.parser.waiting_bytes()) + " obl=" + number(client.output.size()) +
         " cmd=" + client.last_command + " user=default redir=-1 resp=" + (client.is_resp3 ? "3" : "2");
}

void Service::client(Client& client, Arguments words, ReplyWriter& reply) {
  const std::string what = to_lower(words[1]);
  if (what == "id" && words.size() == 2) return reply.integer(static_cast<std::int64_t>(client.number));
  if (what == "getname" && words.size() == 2) {
    if (client.name.empty()) return reply.null();
    return reply.bulk(client.name);
  }
  if (what == "setname" && words.size() == 3) {
    if (std::ranges::any_of(words[2], [](char c) { return c < '!' || c > '~'; }))
      return reply.error("ERR Client names cannot contain spaces, newlines or special characters.");
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
          matches_all = matches_all && words[i + 1] == "default";
        else
          return reply.error(kSyntax);
      }
      if (skips_me && one.get() == &client) continue;
      if (!matches_all) continue;
      ++killed;
      one->is_closing = true;
      if (one->may_be_waiting) one->answers.clear();
      list(*one);
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
    const Client* const other = find(static_cast<std::uint64_t>(*number));
    if (other == nullptr || !other->may_be_waiting) return reply.integer(0);
    stop_waiting(other->number, is_error);
    return reply.integer(1);
  }
  if (what == "no-evict" || what == "setinfo") return reply.ok();
  unknown_subcommand(reply, "CLIENT", words[1]);
}

// -- The server --

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
  if (what == "getkeys" && words.size() >= 3) {
    const auto called = words.subspan(2);
    const Command* const one = find_command(called[0]);
    if (one == nullptr) return reply.error("ERR Invalid command specified");
    if (!fits(*one, called.size()))
      return reply.error("ERR Invalid number of arguments specified for command");
    const auto keys = keys_of(*one, called);
    if (keys.empty()) return reply.error("ERR The command has no key arguments");
    reply.array(keys.size());
    for (const std::string_view key : keys) reply.bulk(key);
    return;
  }
  unknown_subcommand(reply, "COMMAND", words[1]);
}

void Service::config(Client&, Arguments words, ReplyWriter& reply) {
  const std::string what = to_lower(words[1]);
  if (what == "get" && words.size() >= 3) {
    const auto found = settings_.matching(words.subspan(2));
    reply.map(found.size());
    for (const auto& [name, value] : found) {
      reply.bulk(name);
      reply.bulk(value);
    }
    return;
  }
  if (what == "set" && words.size() >= 4 && words.size() % 2 == 0) {
    Settings changed = settings_;
    for (std::size_t i = 2; i < words.size(); i += 2)
      if (const auto set = changed.set(words[i], words[i + 1]); !set)
        return reply.error("ERR " + set.error().what);
    settings_ = std::move(changed);
    databases_->shared().limits = settings_.encoding_limits();
    return reply.ok();
  }
  if (what == "resetstat" && words.size() == 2) {
    requests_ = connections_ = 0;
    return reply.ok();
  }
  unknown_subcommand(reply, "CONFIG", words[1]);
}

void Service::debug(Client&, Arguments words, ReplyWriter& reply) {
  if (is_word(words[1], "jmap") || is_word(words[1], "set-active-expire")) return reply.ok();
  unknown_subcommand(reply, "DEBUG", words[1]);
}

/// There are no functions, so there is nothing to remove.
void Service::function(Client&, Arguments words, ReplyWriter& reply) {
  if (is_word(words[1], "flush")) return reply.ok();
  reply.error("ERR rdmc_kv has no functions and no scripts");
}

void Service::memory(Client& client, Arguments words, ReplyWriter& reply) {
  if (is_word(words[1], "usage") && words.size() >= 3) {
    const Database::Entry* const entry = databases_->at(client.database).find(words[2], agreed_);
    if (entry == nullptr) return reply.null();
    // A value takes about as many bytes as its saved form.
    Bytes saved;
    save_value(entry->value, saved);
    return reply.integer(
        static_cast<std::int64_t>(sizeof(Database::Entry) + entry->key().size() + saved.size()));
  }
  if (is_word(words[1], "doctor")) return reply.verbatim("rdmc_kv has nothing to say about its memory");
  unknown_subcommand(reply, "MEMORY", words[1]);
}

void Service::role(Client&, Arguments, ReplyWriter& reply) {
  if (is_alone() || status_.is_main) {
    reply.array(3);
    reply.bulk("master");
    reply.integer(static_cast<std::int64_t>(applied_));
    return reply.array(0);
  }
  reply.array(5);
  reply.bulk("slave");
  reply.bulk(info_.main_host);
  reply.integer(info_.main_port);
  reply.bulk(status_.is_complete ? "connected" : "sync");
  reply.integer(static_cast<std::int64_t>(applied_));
}

void Service::time_of_day(Client&, Arguments, ReplyWriter& reply) {
  reply.array(2);
  reply.bulk(std::to_string(now_ / 1000));
  reply.bulk(std::to_string(now_ % 1000 * 1000));
}

void Service::unwatch_in_multi(Client&, Arguments, ReplyWriter& reply) {
  reply.ok();
}

/// A write that has been answered is at all servers that have the state. So there is nothing to wait for.
void Service::wait(Client&, Arguments words, ReplyWriter& reply) {
  if (!to_integer(words[1])) return reply.error(kNotAnInteger);
  const auto timeout = to_integer(words[2]);
  if (!timeout) return reply.error("ERR timeout is not an integer or out of range");
  if (*timeout < 0) return reply.error("ERR timeout is negative");
  reply.integer(is_alone() || status_.complete_replicas == 0 ? 0 : status_.complete_replicas - 1);
}

std::string Service::info_text(std::string_view section) const {
  const bool is_all = section.empty() || section == "all" || section == "default" || section == "everything";
  std::string text;
  const auto begin = [&](std::string_view title, std::string_view name) {
    if (!is_all && section != name) return false;
    if (!text.empty()) text += "\r\n";
    text += "# " + std::string(title) + "\r\n";
    return true;
  };
  const auto add = [&](std::string_view name, const auto& value) {
    text += std::string(name) + ":";
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>)
      text += std::to_string(value);
    else
      text += value;
    text += "\r\n";
  };
  if (begin("Server", "server")) {
    add("redis_version", kRedisVersion);
    add("rdmc_version", RDMC_VERSION);
    add("redis_mode", "standalone");
    add("process_id", info_.pid);
    add("tcp_port", info_.port);
  }
  if (begin("Clients", "clients")) {
    add("connected_clients", clients_.size());
    add("blocked_clients",
        held_.size() + static_cast<std::size_t>(std::ranges::count_if(
                           clients_, [](const auto& one) { return one.second->may_be_waiting; })));
  }
  if (begin("Memory", "memory")) {
    add("used_memory", databases_->memory().used());
    add("maxmemory", 0);
    add("mem_allocator", "pools");
  }
  if (begin("Persistence", "persistence")) {
    add("loading", 0);
    add("async_loading", 0);
    add("rdb_changes_since_last_save", databases_->changes());
    add("rdb_bgsave_in_progress", 0);
    add("aof_enabled", 0);
    add("aof_rewrite_in_progress", 0);
  }
  if (begin("Stats", "stats")) {
    add("total_connections_received", connections_);
    add("total_commands_processed", requests_);
    add("expired_keys", databases_->expired());
    add("evicted_keys", 0);
  }
  if (begin("Replication", "replication")) {
    const bool is_main = is_alone() || status_.is_main;
    add("role", is_main ? "master" : "slave");
    if (!is_main) {
      add("master_host", info_.main_host);
      add("master_port", info_.main_port);
      add("master_link_status", status_.is_complete ? "up" : "down");
    }
    add("connected_slaves", is_main && status_.complete_replicas > 0 ? status_.complete_replicas - 1 : 0);
    add("master_repl_offset", applied_);
    add("rdmc_view_epoch", info_.view_epoch);
    add("rdmc_view_members", is_alone() ? 1 : status_.complete_replicas);
    add("rdmc_stable_position", stable_);
  }
  if (begin("Keyspace", "keyspace"))
    for (std::uint32_t i = 0; i < Databases::kCount; ++i)
      if (const Database& database = databases_->at(i); database.size() > 0)
        add("db" + std::to_string(i), "keys=" + std::to_string(database.size()) + ",expires=" +
                                          std::to_string(database.keys_with_deadline()) + ",avg_ttl=0");
  return text;
}

void Service::info(Client&, Arguments words, ReplyWriter& reply) {
  if (words.size() == 1) return reply.verbatim(info_text({}));
  std::string text;
  for (const std::string_view section : words.subspan(1)) text += info_text(to_lower(section));
  reply.verbatim(text);
}

}  // namespace rdmc::kv
