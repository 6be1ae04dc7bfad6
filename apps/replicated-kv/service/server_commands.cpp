// The commands that Service executes for a client, and that concern the server.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

constexpr auto kConfigHelp = std::to_array<std::string_view>({
    "GET <pattern> [<pattern> ...]",
    "    Return the parameters whose names match a pattern, and their values.",
    "RESETSTAT",
    "    Set the counters of INFO to 0.",
    "SET <parameter> <value> [<parameter> <value> ...]",
    "    Change parameters. Those of users and of maxmemory change at all servers.",
});

constexpr auto kDebugHelp = std::to_array<std::string_view>({
    "JMAP",
    "    Has no effect.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Has no effect.",
});

constexpr auto kFunctionHelp = std::to_array<std::string_view>({
    "FLUSH [ASYNC|SYNC]",
    "    Has no effect, because there are no functions.",
});

}  // namespace

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
    requests_ = connections_ = input_bytes_ = output_bytes_ = local_reads_ = refused_requests_ = 0;
    rejected_connections_ = evicted_clients_ = 0;
    output_limit_disconnections_ = query_limit_disconnections_ = 0;
    databases_->hits = databases_->misses = 0;
    statistics_.reset();
    return reply.ok();
  }
  if (what == "help" && words.size() == 2) return help(reply, "CONFIG", kConfigHelp);
  unknown_subcommand(reply, "CONFIG", words[1]);
}

void Service::debug(Client&, Arguments words, ReplyWriter& reply) {
  if (is_word(words[1], "jmap") || is_word(words[1], "set-active-expire")) return reply.ok();
  if (is_word(words[1], "help") && words.size() == 2) return help(reply, "DEBUG", kDebugHelp);
  unknown_subcommand(reply, "DEBUG", words[1]);
}

/// There are no functions, so there is nothing to remove.
void Service::function(Client&, Arguments words, ReplyWriter& reply) {
  if (is_word(words[1], "flush")) return reply.ok();
  if (is_word(words[1], "help") && words.size() == 2) return help(reply, "FUNCTION", kFunctionHelp);
  reply.error("ERR rdmc_kv has no functions and no scripts");
}

void Service::role(Client&, Arguments, ReplyWriter& reply) {
  if (is_alone() || status_.is_main) {
    reply.array(3);
    reply.bulk("master");
    reply.integer(static_cast<std::int64_t>(executed_below()));
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
  reply.integer(static_cast<std::int64_t>(executed_below()));
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

void Service::last_save(Client&, Arguments, ReplyWriter& reply) {
  reply.integer(last_save_time());
}

void Service::rewrite_log(Client&, Arguments, ReplyWriter& reply) {
  if (!log_.is_there) return reply.error("ERR This server keeps no log. Start it with --dir");
  wants_copy_ = true;
  reply.simple("Background append only file rewriting started");
}

}  // namespace rdmc::kv
