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
    // Otherwise Service::run_config_set() is called.
    for (std::size_t i = 2; i < words.size(); i += 2)
      if (Settings::is_of_service(words[i]) && !is_alone())
        return reply.error("ERR CONFIG SET failed (possibly related to argument '" + std::string(words[i]) +
                           "') - this parameter cannot be changed in a transaction");
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

}  // namespace rdmc::kv
