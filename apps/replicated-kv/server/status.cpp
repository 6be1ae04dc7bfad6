#include "apps/replicated-kv/server/status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/program/output.hpp"
#include "apps/replicated-kv/server/access_files.hpp"
#include "apps/replicated-kv/server/member_list.hpp"
#include "apps/replicated-kv/server/question.hpp"

namespace rdmc::kv {

namespace {

using Fields = std::map<std::string, std::string, std::less<>>;

struct Status {
  std::string address, cause;  // the cause why it cannot be asked
  std::optional<Fields> fields;

  std::string text(std::string_view name) const {
    const auto known = fields ? fields->find(name) : Fields::const_iterator();
    return !fields || known == fields->end() ? std::string() : known->second;
  }
  std::uint64_t number(std::string_view name) const { return std::strtoull(text(name).c_str(), nullptr, 10); }
  bool is_main() const { return text("role") == "master"; }
  bool has_state() const { return number("rdmc_is_complete") == 1; }
};

Fields fields_of(const std::string& info) {
  Fields fields;
  for (std::size_t at = 0; at < info.size();) {
    const std::size_t end = std::min(info.find("\r\n", at), info.size());
    const std::string_view line = std::string_view(info).substr(at, end - at);
    if (const auto colon = line.find(':'); colon != std::string_view::npos)
      fields.emplace(line.substr(0, colon), line.substr(colon + 1));
    at = end + 2;
  }
  return fields;
}

/// The number of keys of all databases.
std::uint64_t keys_of(const Status& status) {
  std::uint64_t keys = 0;
  for (int i = 0; i < 16; ++i)
    if (const std::string text = status.text(fmt::format("db{}", i)); text.starts_with("keys="))
      keys += std::strtoull(text.c_str() + 5, nullptr, 10);
  return keys;
}

Status status_of(const std::string& address, const Credentials& credentials) {
  Status status{.address = address, .cause = {}, .fields = {}};
  const auto parsed = parse_address(address, 0);
  const auto info =
      parsed ? ask(*parsed, {"INFO"}, credentials) : Result<std::string>(std::unexpected(parsed.error()));
  if (info)
    status.fields = fields_of(*info);
  else
    status.cause = info.error().what;
  return status;
}

/// Returns by how many positions of the order a server is behind the main.
std::optional<std::uint64_t> lag_of(const Status& status, const Status* main) {
  if (!status.fields || main == nullptr) return std::nullopt;
  const std::uint64_t ahead = main->number("master_repl_offset"), own = status.number("master_repl_offset");
  return ahead > own ? ahead - own : 0;
}

Json json_of(const Status& status, const Status* main) {
  Json json{{"address", status.address}, {"reachable", status.fields.has_value()}};
  if (!status.fields) {
    json["cause"] = status.cause;
    return json;
  }
  json["role"] = status.is_main() ? "main" : "replica";
  json["has_state"] = status.has_state();
  json["available"] = status.number("rdmc_is_available") == 1;
  if (const auto lag = lag_of(status, main)) json["lag_positions"] = *lag;
  json["view_epoch"] = status.number("rdmc_view_epoch");
  json["clients"] = status.number("connected_clients");
  json["requests_per_second"] = status.number("instantaneous_ops_per_sec");
  json["used_memory"] = status.number("used_memory");
  json["resident_memory"] = status.number("used_memory_rss");
  json["keys"] = keys_of(status);
  json["uptime_seconds"] = status.number("uptime_in_seconds");
  return json;
}

void print_table(const std::vector<Status>& servers, const Status* main) {
  fmt::print("{:<24} {:<8} {:<12} {:>8} {:>8} {:>11} {:>10} {:>10}\n", "server", "role", "data", "lag",
             "clients", "requests/s", "memory MB", "keys");
  for (const Status& one : servers) {
    if (!one.fields) {
      fmt::print("{:<24} {}\n", printable(one.address), printable(one.cause));
      continue;
    }
    const auto lag = lag_of(one, main);
    fmt::print("{:<24} {:<8} {:<12} {:>8} {:>8} {:>11} {:>10.1f} {:>10}\n", printable(one.address),
               one.is_main() ? "main" : "replica", one.has_state() ? "all" : "not all",
               lag ? std::to_string(*lag) : "?", one.number("connected_clients"),
               one.number("instantaneous_ops_per_sec"),
               static_cast<double>(one.number("used_memory")) / (1 << 20), keys_of(one));
  }
}

}  // namespace

Result<int> show_status(const StatusOptions& options) {
  const Address& server = options.server;
  Credentials credentials{.user = options.user, .password = {}};
  if (!options.password_file.empty()) {
    auto password = read_password(options.password_file);
    if (!password) return fail(password.error().code, "--password-file: " + password.error().what);
    credentials.password = std::move(*password);
  }
  const auto list = ask(server, {"CONFIG", "GET", kMembersParameter}, credentials);
  if (!list) return fail(list.error().code, rdmc::to_string(server) + ": " + list.error().what);
  std::vector<Status> servers;
  // A server that is alone has no list.
  const std::string addresses =
      list->empty() ? rdmc::to_string(server) : list->substr(0, list->find(kAfterMembers));
  for (std::size_t at = 0; at < addresses.size();) {
    const std::size_t end = std::min(addresses.find(',', at), addresses.size());
    servers.push_back(status_of(addresses.substr(at, end - at), credentials));
    at = end + 1;
  }
  const auto found = std::ranges::find_if(servers, &Status::is_main);
  const Status* const main = found == servers.end() ? nullptr : &*found;
  const bool is_complete = main != nullptr && main->number("rdmc_is_available") == 1 &&
                           std::ranges::all_of(servers, &Status::has_state);
  if (options.json) {
    Json json{{"view_epoch", main == nullptr ? 0 : main->number("rdmc_view_epoch")},
              {"complete", is_complete},
              {"main", main == nullptr ? Json() : Json(main->address)},
              {"servers", Json::array()}};
    for (const Status& one : servers) json["servers"].push_back(json_of(one, main));
    print_json(json);
  } else {
    print_table(servers, main);
    if (main == nullptr) fmt::print("no server says that it is the main\n");
  }
  return is_complete ? kDone : kIncomplete;
}

}  // namespace rdmc::kv
