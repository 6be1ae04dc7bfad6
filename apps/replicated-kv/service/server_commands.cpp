// The commands that Service executes for a client, and that concern the server.
#include <algorithm>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

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
    add("aof_enabled", int{log_.is_there});
    add("aof_rewrite_in_progress", int{log_.is_copying});
    if (log_.is_there) {
      add("aof_last_write_status", log_.failure.empty() ? "ok" : "err");
      add("aof_current_size", log_.bytes);
    }
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

void Service::rewrite_log(Client&, Arguments, ReplyWriter& reply) {
  if (!log_.is_there) return reply.error("ERR This server keeps no log. Start it with --dir");
  wants_copy_ = true;
  reply.simple("Background append only file rewriting started");
}

void Service::info(Client&, Arguments words, ReplyWriter& reply) {
  if (words.size() == 1) return reply.verbatim(info_text({}));
  std::string text;
  for (const std::string_view section : words.subspan(1)) text += info_text(to_lower(section));
  reply.verbatim(text);
}

}  // namespace rdmc::kv
