// INFO: what a server says about itself, in sections with the names of Redis. Fields of our own begin with
// "rdmc_". A field that would say nothing true is left out.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

/// The sections that a client gets that asks for none, and those that it must ask for.
constexpr std::array<std::string_view, 10> kDefaultSections{"server",  "clients",     "memory", "persistence",
                                                            "stats",   "replication", "cpu",    "errorstats",
                                                            "cluster", "keyspace"};
constexpr std::array<std::string_view, 1> kOtherSections{"commandstats"};

std::string human(std::size_t bytes) {
  constexpr std::string_view kUnits = "BKMGT";
  double number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; number >= 1024 && unit + 1 < kUnits.size(); ++unit) number /= 1024;
  return unit == 0 ? fmt::format("{}B", bytes) : fmt::format("{:.2f}{}", number, kUnits[unit]);
}

class Section {
 public:
  Section(std::string& text, std::string_view title) : text_(text) {
    text_ += fmt::format("{}# {}\r\n", text_.empty() ? "" : "\r\n", title);
  }
  template <typename Value>
  void add(std::string_view name, const Value& value) {
    text_ += fmt::format("{}:{}\r\n", name, value);
  }

 private:
  std::string& text_;
};

}  // namespace

void Service::info_server(std::string& text) const {
  Section section(text, "Server");
  section.add("redis_version", kRedisVersion);
  section.add("rdmc_version", RDMC_VERSION);
  section.add("redis_mode", "standalone");
  section.add("arch_bits", 8 * sizeof(void*));
  section.add("process_id", info_.pid);
  section.add("tcp_port", info_.port);
  section.add("uptime_in_seconds", (now_.steady - options_.started_at) / 1000);
  section.add("uptime_in_days", (now_.steady - options_.started_at) / (1000 * 86'400));
}

void Service::info_clients(std::string& text) const {
  Section section(text, "Clients");
  const auto count = [&](auto Client::*is) {
    return std::ranges::count_if(clients_, [&](const auto& one) { return (*one.second).*is; });
  };
  section.add("connected_clients", clients_.size());
  section.add("maxclients", settings_.number("maxclients"));
  section.add("blocked_clients", count(&Client::may_be_waiting));
  section.add("rdmc_waiting_clients", held_.size() + waiting_for_space_.size());
  section.add("pubsub_clients", pubsub_.clients());
}

void Service::info_memory(std::string& text) const {
  Section section(text, "Memory");
  const std::size_t used = databases_->memory().used();
  const ProcessFacts process = options_.process ? options_.process() : ProcessFacts{};
  section.add("used_memory", used);
  section.add("used_memory_human", human(used));
  section.add("used_memory_rss", process.resident_bytes);
  section.add("used_memory_rss_human", human(process.resident_bytes));
  section.add("used_memory_peak", std::max(used, most_used_));
  section.add("used_memory_peak_human", human(std::max(used, most_used_)));
  section.add("used_memory_dataset", used);
  section.add("maxmemory", databases_->limit().most);
  section.add("maxmemory_human", human(databases_->limit().most));
  section.add("maxmemory_policy", settings_.at("maxmemory-policy"));
  section.add(
      "mem_fragmentation_ratio",
      fmt::format("{:.2f}",
                  used == 0 ? 0.0 : static_cast<double>(process.resident_bytes) / static_cast<double>(used)));
  section.add("mem_clients_normal", memory_.total());
  section.add("rdmc_batch_bytes", waiting_bytes_);
  section.add("mem_allocator", "pools");
}

/// The time of the newest copy on disk, in seconds since 1970. Before the first one, it is the start of the
/// server, as in Redis.
std::int64_t Service::last_save_time() const {
  return log_.copied_at != 0 ? log_.copied_at : options_.started_wall / 1000;
}

/// A copy has the changes that were made before it was begun.
void Service::set_log_info(LogInfo info) {
  if (info.copy_began_at && info.copy_began_at != log_.copy_began_at)
    changes_of_copy_ = databases_->changes();
  if (info.copied_at != log_.copied_at ||
      (log_.copy_began_at && !info.copy_began_at && !info.has_copy_failed))
    copied_changes_ = changes_of_copy_;
  log_ = std::move(info);
}

void Service::info_persistence(std::string& text) const {
  Section section(text, "Persistence");
  section.add("loading", is_reading_disk_ || loader_ || !new_users_.empty() || starts() ? 1 : 0);
  section.add("async_loading", 0);
  if (is_reading_disk_) return;
  section.add("rdb_changes_since_last_save",
              databases_->changes() - std::min(copied_changes_, databases_->changes()));
  section.add("rdb_bgsave_in_progress", 0);
  section.add("rdb_last_save_time", last_save_time());
  section.add("aof_enabled", log_.is_there ? 1 : 0);
  section.add("aof_rewrite_in_progress", log_.copy_began_at ? 1 : 0);
  if (!log_.is_there) return;
  const auto seconds = [](std::optional<Milliseconds> time) { return time ? *time / 1000 : -1; };
  const std::string_view copies = log_.has_copy_failed ? "err" : "ok";
  section.add("rdb_last_bgsave_status", copies);
  section.add("aof_rewrite_scheduled", wants_copy_ ? 1 : 0);
  section.add("aof_last_rewrite_time_sec", seconds(log_.copy_took));
  section.add("aof_current_rewrite_time_sec",
              log_.copy_began_at ? (now_.steady - *log_.copy_began_at) / 1000 : -1);
  section.add("aof_last_bgrewrite_status", copies);
  section.add("aof_last_write_status", log_.failure.empty() ? "ok" : "err");
  section.add("aof_current_size", log_.bytes);
  section.add("rdmc_log_hangs", log_.hangs ? 1 : 0);
}

void Service::info_stats(std::string& text) const {
  Section section(text, "Stats");
  section.add("total_connections_received", connections_);
  section.add("total_commands_processed", requests_);
  section.add("instantaneous_ops_per_sec", request_rate_.per_second());
  section.add("total_net_input_bytes", input_bytes_);
  section.add("total_net_output_bytes", output_bytes_);
  section.add("instantaneous_input_kbps",
              fmt::format("{:.2f}", static_cast<double>(input_rate_.per_second()) / 1024));
  section.add("instantaneous_output_kbps",
              fmt::format("{:.2f}", static_cast<double>(output_rate_.per_second()) / 1024));
  section.add("rejected_connections", rejected_connections_);
  section.add("expired_keys", databases_->expired());
  section.add("evicted_keys", databases_->evicted());
  section.add("evicted_clients", evicted_clients_);
  section.add("client_query_buffer_limit_disconnections", query_limit_disconnections_);
  section.add("client_output_buffer_limit_disconnections", output_limit_disconnections_);
  section.add("keyspace_hits", databases_->hits);
  section.add("keyspace_misses", databases_->misses);
  section.add("pubsub_channels", pubsub_.channels("*").size());
  section.add("pubsub_patterns", pubsub_.patterns());
  section.add("total_error_replies", statistics_.all_errors());
  section.add("rdmc_local_reads", local_reads_);
  section.add("rdmc_refused_requests", refused_requests_);
}

void Service::info_replication(std::string& text) const {
  Section section(text, "Replication");
  const bool is_main = is_alone() || status_.is_main;
  section.add("role", is_main ? "master" : "slave");
  if (!is_main) {
    section.add("master_host", info_.main.host);
    section.add("master_port", info_.main.port);
    section.add("master_link_status", status_.is_complete && answers_requests() ? "up" : "down");
    section.add("master_sync_in_progress", loader_ ? 1 : 0);
    section.add("slave_repl_offset", executed_below());
    // A server that is not the main takes writes, too. In Redis' words, it is a replica that is not
    // read-only.
    section.add("slave_read_only", 0);
  }
  section.add("connected_slaves", is_main ? info_.others.size() : 0);
  const bool are_all_complete = info_.others.size() + 1 == status_.complete_replicas;
  for (std::size_t i = 0; is_main && i < info_.others.size(); ++i)
    section.add(fmt::format("slave{}", i),
                fmt::format("ip={},port={},state={},offset={},lag=0", info_.others[i].host,
                            info_.others[i].port, are_all_complete ? "online" : "unknown", stable_));
  section.add("master_repl_offset", executed_below());
  section.add("rdmc_view_epoch", info_.view_epoch);
  section.add("rdmc_view_members", is_alone() ? 1 : status_.complete_replicas);
  section.add("rdmc_servers", is_alone() ? 1 : info_.others.size() + 1);
  section.add("rdmc_is_complete", is_alone() || status_.is_complete ? 1 : 0);
  section.add("rdmc_is_available", answers_requests() ? 1 : 0);
  section.add("rdmc_stable_position", stable_);
  section.add("rdmc_batches_in_flight", in_flight_.size());
}

void Service::info_cpu(std::string& text) const {
  Section section(text, "CPU");
  const ProcessFacts process = options_.process ? options_.process() : ProcessFacts{};
  const auto seconds = [](std::uint64_t microseconds) {
    return fmt::format("{}.{:06}", microseconds / 1'000'000, microseconds % 1'000'000);
  };
  section.add("used_cpu_sys", seconds(process.system_microseconds));
  section.add("used_cpu_user", seconds(process.user_microseconds));
}

void Service::info_commands(std::string& text) const {
  Section section(text, "Commandstats");
  for (const auto& [name, counts] : statistics_.commands())
    section.add(fmt::format("cmdstat_{}", name),
                fmt::format("calls={},usec={},usec_per_call={:.2f},rejected_calls={},failed_calls={}",
                            counts->calls, counts->microseconds,
                            counts->calls == 0 ? 0.0
                                               : static_cast<double>(counts->microseconds) /
                                                     static_cast<double>(counts->calls),
                            counts->rejected, counts->failed));
}

void Service::info_keyspace(std::string& text) const {
  Section section(text, "Keyspace");
  for (std::uint32_t i = 0; i < Databases::kCount; ++i) {
    const Database& database = databases_->at(i);
    if (database.size() > 0)
      section.add(fmt::format("db{}", i), fmt::format("keys={},expires={},avg_ttl=0", database.size(),
                                                      database.keys_with_deadline()));
  }
}

std::string Service::info_text(Arguments asked) const {
  std::set<std::string, std::less<>> wanted;
  const auto want = [&](const auto& names) { wanted.insert(names.begin(), names.end()); };
  if (asked.empty()) want(kDefaultSections);
  for (const std::string_view word : asked) {
    const std::string name = to_lower(word);
    const bool is_all = name == "all" || name == "everything";
    if (is_all || name == "default") want(kDefaultSections);
    if (is_all) want(kOtherSections);
    wanted.insert(name);
  }
  std::string text;
  if (wanted.contains("server")) info_server(text);
  if (wanted.contains("clients")) info_clients(text);
  if (wanted.contains("memory")) info_memory(text);
  if (wanted.contains("persistence")) info_persistence(text);
  if (wanted.contains("stats")) info_stats(text);
  if (wanted.contains("replication")) info_replication(text);
  if (wanted.contains("cpu")) info_cpu(text);
  if (wanted.contains("commandstats")) info_commands(text);
  if (wanted.contains("errorstats")) {
    Section section(text, "Errorstats");
    for (const auto& [code, count] : statistics_.errors())
      section.add(fmt::format("errorstat_{}", code), fmt::format("count={}", count));
  }
  if (wanted.contains("cluster")) Section(text, "Cluster").add("cluster_enabled", 0);
  if (wanted.contains("keyspace")) info_keyspace(text);
  return text;
}

void Service::info(Client&, Arguments words, ReplyWriter& reply) {
  // While the disk is read, it is not known yet who may see more.
  constexpr std::array<std::string_view, 1> kOnly{"persistence"};
  reply.verbatim(info_text(is_reading_disk_ ? Arguments(kOnly) : words.subspan(1)));
}

}  // namespace rdmc::kv
