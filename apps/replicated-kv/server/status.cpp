#include "apps/replicated-kv/server/status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/program/output.hpp"
#include "apps/replicated-kv/server/access_files.hpp"
#include "apps/replicated-kv/server/member_list.hpp"
#include "apps/replicated-kv/server/question.hpp"

namespace rdmc::kv {

namespace {

using Fields = std::map<std::string, std::string, std::less<>>;

/// The lag of a server is looked at this number of times, after this time, while it is not 0.
constexpr int kMostLooks = 5;
constexpr std::chrono::milliseconds kLookAgain{20};

struct Status {
  std::string address;
  std::optional<Error> cause = {};  // why it says nothing
  std::optional<Question> question = {};
  std::optional<Fields> fields = {};
  std::optional<std::uint64_t> lag = {};  // in positions

  std::string text(std::string_view name) const {
    const auto known = fields ? fields->find(name) : Fields::const_iterator();
    return !fields || known == fields->end() ? std::string() : known->second;
  }
  std::uint64_t number(std::string_view name) const { return std::strtoull(text(name).c_str(), nullptr, 10); }
  bool is_main() const { return text("role") == "master"; }
  /// It has replied, if only with an error.
  bool is_reachable() const {
    return !cause || (cause->code != Errc::peer_failed && cause->code != Errc::timed_out);
  }
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

void look(Status& status) {
  if (!status.question) return;
  const auto info = status.question->ask({"INFO"});
  if (info)
    status.fields = fields_of(*info);
  else
    status.cause = info.error();
}

/// Says by how many positions of the order each server is behind the main. A login is an event, and so are
/// the requests of clients. So positions that the main has just given count only if all servers should have
/// executed them: the main has said that all servers have them, and the server is asked again after that.
void look_at_lag(std::vector<Status>& servers, const Status& main) {
  const std::uint64_t stable = main.number("rdmc_stable_position");
  for (Status& one : servers)
    for (int looks = 1; one.fields; ++looks) {
      const std::uint64_t own = one.number("master_repl_offset");
      one.lag = stable > own ? stable - own : 0;
      if (*one.lag == 0 || looks == kMostLooks) break;
      std::this_thread::sleep_for(kLookAgain);
      look(one);
    }
}

Json json_of(const Status& status) {
  Json json{{"address", status.address}, {"reachable", status.is_reachable()}};
  if (!status.fields) {
    json["cause"] = status.cause ? status.cause->what : "";
    return json;
  }
  json["role"] = status.is_main() ? "main" : "replica";
  json["has_state"] = status.has_state();
  json["available"] = status.number("rdmc_is_available") == 1;
  if (status.lag) json["lag_positions"] = *status.lag;
  json["view_epoch"] = status.number("rdmc_view_epoch");
  json["clients"] = status.number("connected_clients");
  json["requests_per_second"] = status.number("instantaneous_ops_per_sec");
  json["used_memory"] = status.number("used_memory");
  json["resident_memory"] = status.number("used_memory_rss");
  json["keys"] = keys_of(status);
  json["uptime_seconds"] = status.number("uptime_in_seconds");
  return json;
}

void print_table(const std::vector<Status>& servers) {
  fmt::print("{:<24} {:<8} {:<12} {:>8} {:>8} {:>11} {:>10} {:>10}\n", "server", "role", "data", "lag",
             "clients", "requests/s", "memory MB", "keys");
  for (const Status& one : servers) {
    if (!one.fields) {
      fmt::print("{:<24} {}\n", printable(one.address), printable(one.cause ? one.cause->what : ""));
      continue;
    }
    fmt::print("{:<24} {:<8} {:<12} {:>8} {:>8} {:>11} {:>10.1f} {:>10}\n", printable(one.address),
               one.is_main() ? "main" : "replica", one.has_state() ? "all" : "not all",
               one.lag ? std::to_string(*one.lag) : "?", one.number("connected_clients"),
               one.number("instantaneous_ops_per_sec"),
               static_cast<double>(one.number("used_memory")) / (1 << 20), keys_of(one));
  }
}

/// Has what is needed to ask any server of the service.
struct Asker {
  Credentials credentials;
  std::optional<TlsContext> tls;
  /// What is added to the port number of a server's list to get the one for TLS. It is the same at all
  /// servers.
  int port_offset = 0;

  Result<Question> open(const Address& server) const {
    return Question::open(server, credentials, tls ? &*tls : nullptr);
  }
  Status begin(const Address& member) const {
    Status status{.address = rdmc::to_string(member)};
    Address asked = member;
    asked.port = static_cast<std::uint16_t>(member.port + port_offset);
    auto question = open(asked);
    if (question)
      status.question = std::move(*question);
    else
      status.cause = question.error();
    return status;
  }
};

Result<Asker> make_asker(const StatusOptions& options) {
  Asker asker{.credentials = {.user = options.user, .password = {}}, .tls = {}};
  if (!options.password_file.empty()) {
    auto password = read_password(options.password_file);
    if (!password) return fail(password.error().code, "--password-file: " + password.error().what);
    asker.credentials.password = std::move(*password);
  }
  if (!options.tls.authority.empty()) {
    auto tls = TlsContext::open_client(options.tls);
    if (!tls) return std::unexpected(tls.error());
    asker.tls = std::move(*tls);
  }
  return asker;
}

/// The service does not answer at present, or a server hangs.
bool is_outage(const Error& error) {
  return error.code == Errc::would_block || error.code == Errc::timed_out;
}

/// Asks a server which servers there are, without credentials. The list is empty if the server is alone.
Result<std::string> ask_for_members(const Asker& asker, const Address& server) {
  auto question = Question::open(server, {}, asker.tls ? &*asker.tls : nullptr);
  if (!question) return std::unexpected(question.error());
  auto list = question->ask({"rdmc.same-members", ""});
  return list && *list == "0" ? std::string() : list;
}

std::vector<Address> addresses_in(std::string_view list) {
  std::vector<Address> addresses;
  list = list.substr(0, list.find(kAfterMembers));
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (const auto address = parse_address(list.substr(0, end), 0)) addresses.push_back(*address);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return addresses;
}

/// Finds out how the port numbers for TLS follow from those of the list.
Result<void> learn_port_offset(Asker& asker, const Address& server, Question& first) {
  if (!asker.tls) return {};
  const auto port = first.ask({"CONFIG", "GET", "port"});
  if (!port) return std::unexpected(port.error());
  asker.port_offset = server.port - std::atoi(port->c_str());
  return {};
}

/// The same while `server` says no more than the list. Returns false if several servers have its address.
bool guess_port_offset(Asker& asker, const Address& server, const std::vector<Address>& members) {
  if (!asker.tls) return true;
  const auto has_same_host = [&](const Address& one) { return host_string(one) == host_string(server); };
  if (std::ranges::count_if(members, has_same_host) != 1) return false;
  asker.port_offset = server.port - std::ranges::find_if(members, has_same_host)->port;
  return true;
}

/// Connects to all servers of the service. Nobody can log in during an outage. Then `server` says at least
/// which servers there are. Errors: `server` cannot be reached, or refuses.
Result<std::vector<Status>> reach_all(Asker& asker, const Address& server) {
  const auto about = [&](const Error& error) {
    return fail(error.code, rdmc::to_string(server) + ": " + error.what);
  };
  auto first = asker.open(server);
  auto list = first ? first->ask({"CONFIG", "GET", kMembersParameter}) : std::unexpected(first.error());
  auto offset = list ? learn_port_offset(asker, server, *first) : std::unexpected(list.error());
  if (!offset && !is_outage(offset.error())) return about(offset.error());
  if (!offset) list = ask_for_members(asker, server);
  // A server that is alone has no list.
  const std::vector<Address> members = addresses_in(list.value_or(""));
  std::vector<Status> servers;
  if (members.empty() || (!offset && !guess_port_offset(asker, server, members))) {
    servers.push_back({.address = rdmc::to_string(server)});
    if (offset)
      servers.back().question = std::move(*first);
    else
      servers.back().cause = offset.error();
    return servers;
  }
  for (const Address& member : members) servers.push_back(asker.begin(member));
  return servers;
}

}  // namespace

Result<int> show_status(const StatusOptions& options) {
  auto asker = make_asker(options);
  if (!asker) return std::unexpected(asker.error());
  auto reached = reach_all(*asker, options.server);
  if (!reached) return std::unexpected(reached.error());
  std::vector<Status>& servers = *reached;
  std::ranges::for_each(servers, look);
  const auto found = std::ranges::find_if(servers, &Status::is_main);
  const Status* const main = found == servers.end() ? nullptr : &*found;
  if (main != nullptr) look_at_lag(servers, *main);
  const bool is_complete = main != nullptr && main->number("rdmc_is_available") == 1 &&
                           std::ranges::all_of(servers, &Status::has_state);
  if (options.json) {
    Json json{{"view_epoch", main == nullptr ? 0 : main->number("rdmc_view_epoch")},
              {"complete", is_complete},
              {"main", main == nullptr ? Json() : Json(main->address)},
              {"servers", Json::array()}};
    for (const Status& one : servers) json["servers"].push_back(json_of(one));
    print_json(json);
  } else {
    print_table(servers);
    if (main == nullptr) fmt::print("no server says that it is the main\n");
  }
  return is_complete ? kDone : kIncomplete;
}

}  // namespace rdmc::kv
