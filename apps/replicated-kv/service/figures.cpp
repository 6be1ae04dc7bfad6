#include "apps/replicated-kv/service/figures.hpp"

#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

std::vector<Figure> Service::figures() const {
  std::vector<Figure> all;
  const auto gauge = [&](std::string name, std::string help, auto value) {
    all.push_back({"rdmc_kv_" + std::move(name), std::move(help), false, static_cast<double>(value)});
  };
  const auto counter = [&](std::string name, std::string help, auto value) {
    all.push_back(
        {"rdmc_kv_" + std::move(name) + "_total", std::move(help), true, static_cast<double>(value)});
  };
  gauge("is_main", "1 while this server decides the order of writes", is_alone() || status_.is_main ? 1 : 0);
  gauge("has_state", "1 while this server has all data", is_alone() || status_.is_complete ? 1 : 0);
  gauge("is_available", "1 while this server answers requests for data", answers_requests() ? 1 : 0);
  gauge("servers_with_state", "Servers that have all data", is_alone() ? 1 : status_.complete_replicas);
  gauge("servers_in_view", "Servers of the view", is_alone() ? 1 : info_.others.size() + 1);
  gauge("view_epoch", "Epoch of the view", info_.view_epoch);
  gauge("applied_position", "The events below this position are executed here", executed_below());
  gauge("stable_position", "The events below this position are at all servers", stable_);
  gauge("batches_in_flight", "Request batches of this server that are not executed yet", in_flight_.size());
  gauge("batch_bytes", "Bytes of request batches that wait here", waiting_bytes_);
  gauge("clients", "Connections of clients", clients_.size());
  gauge("clients_held", "Clients whose request waits because the service cannot answer", held_.size());
  gauge("client_memory_bytes", "Memory of the clients that need much", memory_.total());
  gauge("keys", "Keys of all databases", databases_->keys());
  gauge("memory_used_bytes", "Memory that keys and values need", databases_->memory().used());
  gauge("memory_limit_bytes", "The limit for them; 0: no limit", databases_->limit().most);
  if (log_.is_there) {
    gauge("log_refuses_writes", "1 while writes get MISCONF because of the disk",
          log_.failure.empty() ? 0 : 1);
    gauge("log_hangs", "1 while the disk has not finished a write for 2 s", log_.hangs ? 1 : 0);
    gauge("log_bytes", "Bytes of the log after the newest copy", log_.bytes);
    gauge("copy_failed", "1 if the last copy of all data could not be written", log_.has_copy_failed ? 1 : 0);
    gauge("copy_written_at_seconds", "When the newest copy was written, in seconds since 1970; 0: never",
          log_.copied_at);
  }
  if (options_.process) {
    const ProcessFacts process = options_.process();
    gauge("memory_resident_bytes", "Resident memory of the process", process.resident_bytes);
    all.push_back({"rdmc_kv_cpu_seconds_total",
                   "Processor time of the process",
                   true,
                   static_cast<double>(process.user_microseconds) / 1e6,
                   {{"mode", "user"}}});
    all.push_back({"rdmc_kv_cpu_seconds_total",
                   "Processor time of the process",
                   true,
                   static_cast<double>(process.system_microseconds) / 1e6,
                   {{"mode", "system"}}});
  }
  counter("connections", "Connections of clients since the start", connections_);
  counter("connections_rejected", "Connections that were refused", rejected_connections_);
  counter("requests", "Requests of clients", requests_);
  counter("requests_refused", "Requests that got CLUSTERDOWN, LOADING or UNCERTAIN in an outage",
          refused_requests_);
  counter("local_reads", "Reads that this server has answered as the main", local_reads_);
  counter("received_bytes", "Bytes of requests", input_bytes_);
  counter("sent_bytes", "Bytes of replies", output_bytes_);
  counter("keys_expired", "Keys that were removed at their deadline", databases_->expired());
  counter("keys_evicted", "Keys that were removed to save memory", databases_->evicted());
  counter("key_hits", "Reads of keys that exist", databases_->hits);
  counter("key_misses", "Reads of keys that do not exist", databases_->misses);
  counter("clients_evicted", "Connections that were closed because all clients needed too much memory",
          evicted_clients_);
  counter("clients_over_output_limit", "Connections of clients that did not read their replies",
          output_limit_disconnections_);
  counter("clients_over_request_limit", "Connections of clients whose request was too long",
          query_limit_disconnections_);
  for (const auto& [code, count] : statistics_.errors())
    all.push_back(
        {"rdmc_kv_errors_total", "Error replies", true, static_cast<double>(count), {{"code", code}}});
  for (const auto& [name, counts] : statistics_.commands()) {
    const std::string command(name);
    all.push_back({"rdmc_kv_commands_total",
                   "Commands that were executed for clients of this server",
                   true,
                   static_cast<double>(counts->calls),
                   {{"command", command}}});
    all.push_back({"rdmc_kv_command_seconds_total",
                   "The time of their execution",
                   true,
                   static_cast<double>(counts->microseconds) / 1e6,
                   {{"command", command}}});
  }
  return all;
}

}  // namespace rdmc::kv
