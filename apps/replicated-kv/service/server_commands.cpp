// The commands that Service executes for a client, and that concern the server.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

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
    apply_settings();
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
    reply.array(info_.others.size());
    for (const ServiceInfo::Server& other : info_.others) {
      reply.array(3);
      reply.bulk(other.host);
      reply.bulk(std::to_string(other.port));
      reply.bulk(std::to_string(stable_));
    }
    return;
  }
  reply.array(5);
  reply.bulk("slave");
  reply.bulk(info_.main.host);
  reply.integer(info_.main.port);
  reply.bulk(status_.is_complete ? "connected" : "sync");
  reply.integer(static_cast<std::int64_t>(applied_));
}

void Service::time_of_day(Client&, Arguments, ReplyWriter& reply) {
  reply.array(2);
  reply.bulk(std::to_string(now_.wall / 1000));
  reply.bulk(std::to_string(now_.wall % 1000 * 1000));
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
    add("maxclients", settings_.number("maxclients"));
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
    add("rejected_connections", rejected_connections_);
    add("expired_keys", databases_->expired());
    add("evicted_keys", 0);
    add("evicted_clients", evicted_clients_);
    add("client_query_buffer_limit_disconnections", query_limit_disconnections_);
    add("client_output_buffer_limit_disconnections", output_limit_disconnections_);
  }
  if (begin("Replication", "replication")) {
    const bool is_main = is_alone() || status_.is_main;
    add("role", is_main ? "master" : "slave");
    if (!is_main) {
      add("master_host", info_.main.host);
      add("master_port", info_.main.port);
      add("master_link_status", status_.is_complete ? "up" : "down");
      add("master_sync_in_progress", loader_ ? 1 : 0);
      add("slave_repl_offset", applied_);
      // A server that is not the main takes writes, too. In Redis' words, it is a replica that is not
      // read-only.
      add("slave_read_only", 0);
    }
    add("connected_slaves", is_main ? info_.others.size() : 0);
    const bool are_all_complete = info_.others.size() + 1 == status_.complete_replicas;
    for (std::size_t i = 0; is_main && i < info_.others.size(); ++i)
      add("slave" + std::to_string(i),
          "ip=" + info_.others[i].host + ",port=" + std::to_string(info_.others[i].port) + ",state=" +
              (are_all_complete ? "online" : "unknown") + ",offset=" + std::to_string(stable_) + ",lag=0");
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
