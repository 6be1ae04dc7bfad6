// The part of Service for AUTH and HELLO, and for commands of clients that the servers execute in the order
// of events. Passwords never enter events and queues: without_secrets() replaces them by their digests.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/access/password.hpp"
#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/limits.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

constexpr std::string_view kWrongPassword = "WRONGPASS invalid username-password pair or user is disabled.";

bool is_config_set(const Command& command, Arguments words) {
  return command.name == "config" && words.size() >= 4 && words.size() % 2 == 0 && is_word(words[1], "set");
}

/// The options of HELLO.
struct Hello {
  std::optional<std::int64_t> version;
  std::optional<std::string_view> client_name;
  std::optional<std::pair<std::string_view, std::string_view>> login;  // user, password
};

std::expected<Hello, std::string> parse_hello(Arguments words) {
  Hello hello;
  if (words.size() > 1) {
    hello.version = to_integer(words[1]);
    if (!hello.version) return std::unexpected("ERR Protocol version is not an integer or out of range");
    if (*hello.version != 2 && *hello.version != 3)
      return std::unexpected("NOPROTO unsupported protocol version");
  }
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (is_word(words[i], "auth") && i + 2 < words.size() && !hello.login) {
      hello.login.emplace(words[i + 1], words[i + 2]);
      i += 2;
    } else if (is_word(words[i], "setname") && i + 1 < words.size()) {
      hello.client_name = words[++i];
      if (const auto error = error_in_client_name(*hello.client_name); !error.empty())
        return std::unexpected(std::string(error));
    } else {
      return std::unexpected("ERR Syntax error in HELLO option '" + std::string(words[i]) + "'");
    }
  }
  return hello;
}

/// The user and the digest of the password that AUTH or HELLO has.
std::optional<std::pair<std::string_view, std::string_view>> login_of(Arguments words) {
  if (is_word(words[0], "hello")) {
    const auto hello = parse_hello(words);
    return hello ? hello->login : std::nullopt;
  }
  if (words.size() == 2) return std::pair(Users::kDefault, words[1]);
  if (words.size() == 3) return std::pair(words[1], words[2]);
  return std::nullopt;
}

/// A name that is too long for a user stays too long.
std::string_view short_user_name(std::string_view name) {
  return name.substr(0, Users::kMostNameBytes + 1);
}

}  // namespace

// -- The ways of commands --

bool Service::is_for_all_servers(const Command& command, Arguments words) {
  if (is_config_set(command, words))
    for (std::size_t i = 2; i < words.size(); i += 2)
      if (Settings::is_of_service(words[i])) return true;
  return command.name == "acl" &&
         (is_word(words[1], "setuser") || is_word(words[1], "deluser") || is_word(words[1], "load"));
}

Service::Place Service::place_of(const Command& command, Arguments words) {
  if (!command.has(flag::kClient)) return command.has(flag::kWrite) ? Place::order_all : Place::order_local;
  if (command.name == "auth" || (command.name == "hello" && login_of(words))) return Place::order_login;
  if (is_for_all_servers(command, words)) return Place::order_all;
  if (command.name != "acl") return Place::here;
  const bool is_of_server =
      std::ranges::any_of(std::to_array<std::string_view>({"whoami", "cat", "genpass", "log", "help"}),
                          [&](std::string_view name) { return is_word(words[1], name); });
  return is_of_server ? Place::here : Place::order_local;
}

std::expected<std::optional<std::vector<std::string>>, std::string> Service::without_secrets(
    const Command& command, Arguments words) const {
  std::vector<std::string> changed(words.begin(), words.end());
  if (command.name == "auth") {
    if (words.size() > 3) return std::unexpected(std::string(kSyntax));
    changed.back() = digest_of(words.back());
    if (words.size() == 3) changed[1] = short_user_name(words[1]);
  } else if (command.name == "hello") {
    const auto hello = parse_hello(words);
    if (!hello) return std::unexpected(hello.error());
    if (!hello->login) return std::nullopt;
    changed.resize(2);
    changed.insert(changed.end(), {"auth", std::string(short_user_name(hello->login->first)),
                                   digest_of(hello->login->second)});
    if (hello->client_name) changed.insert(changed.end(), {"setname", std::string(*hello->client_name)});
  } else if (is_config_set(command, words)) {
    if (!is_for_all_servers(command, words)) return std::nullopt;
    return config_set_with_digest(words);
  } else if (command.name == "acl" && is_word(words[1], "setuser") && words.size() > 3) {
    auto rules = with_digests(words.subspan(3));
    if (!rules) return std::unexpected("ERR " + rules.error());
    changed.resize(3);
    std::ranges::move(*rules, std::back_inserter(changed));
  } else if (command.name == "acl" && is_word(words[1], "load") && options_.acl_file != nullptr) {
    const std::string& name = options_.acl_file->name();
    const auto content = options_.acl_file->read();
    if (!content)
      return std::unexpected("ERR Error loading ACLs, opening file '" + name + "': " + content.error().what);
    const auto users = parse_acl_file(*content, name, users_.permits_new_users_all_channels());
    if (!users) return std::unexpected("ERR " + users.error());
    Bytes bytes;
    users->save(bytes);
    changed.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  } else {
    return std::nullopt;
  }
  return changed;
}

/// Executes a command of the client in the order of events. Returns false if the request must wait. The
/// client gives no further request before the reply, because later ones may depend on it.
bool Service::run_in_order(Client& client, const Command& command, Arguments words) {
  if (is_alone()) {
    std::string text;
    ReplyWriter reply(text, client.is_resp3);
    Origin origin{{server_, client.number}, client.user};
    execute_client_command(command, words, origin, &client, reply);
    return answer(client, text), true;
  }
  if (is_reading_disk_ || has_waited_too_long(client)) return refuse(client), true;
  if (!is_available() || waiting_bytes_ > kMostWaitingBytes) return false;
  Bytes& batch = batch_for(client.number, EntryKind::command);
  put_varint(batch, client.user);
  const bool is_for_all = is_for_all_servers(command, words);
  // No other server executes a login. So the names in it stay here, and somebody without a password cannot
  // write them to the disks of all servers. The event has as many words as any login needs.
  const std::array<std::string_view, 2> no_names{command.name, ""};
  if (place_of(command, words) == Place::order_login) {
    client.login.assign(words.begin(), words.end());
    words = no_names;
  }
  put_command(batch, client.database, client.is_resp3, !is_for_all, words);
  answer_in_batch(client, is_for_all);
  client.may_be_waiting = true;
  return true;
}

/// `client` is null at other servers, and if nobody waits for the reply any more.
void Service::execute_client_command(const Command& command, Arguments words, Origin& origin, Client* client,
                                     ReplyWriter& reply) {
  if (place_of(command, words) == Place::order_login)
    if (const User* const user = log_in(words)) {
      origin.user = user->number();
      if (client != nullptr) {
        client->user = origin.user;
        client->failed_logins = 0;
      }
    }
  if (client != nullptr)
    run_for_client(*client, command, words, reply);
  else if (is_for_all_servers(command, words))
    change_at_all_servers(words, nullptr, reply);
}

// -- Logins --

/// Returns the user if the password is right, or null.
const User* Service::log_in(Arguments words) const {
  const auto login = login_of(words);
  if (!login) return nullptr;
  const User* const user = users_.find(login->first);
  // This form is for a password of the default user. Without one, it is a mistake.
  if (is_word(words[0], "auth") && words.size() == 2 && users_.default_user().needs_no_password())
    return nullptr;
  return user != nullptr && user->accepts(login->second) ? user : nullptr;
}

void Service::log_wrong_password(Client& client, std::string_view command, std::string_view user) {
  acl_log_.add({.reason = AclLog::Reason::auth,
                .context = client.is_in_multi ? AclLog::Context::multi : AclLog::Context::toplevel,
                .object = std::string(command),
                .user = std::string(user.substr(0, AclLog::kMostNameBytes)),
                .time = now_.steady,
                .client = describe(client)},
               static_cast<std::size_t>(settings_.number("acllog-max-len")));
  if (++client.failed_logins >= kMostFailedLogins) client.is_closing = true;
}

void Service::auth(Client& client, Arguments words, ReplyWriter& reply) {
  if (words.size() > 3) return reply.error(kSyntax);
  if (words.size() == 2 && users_.default_user().needs_no_password())
    return reply.error(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
  if (log_in(words) != nullptr) return reply.ok();
  log_wrong_password(client, words[0], words.size() == 3 ? words[1] : Users::kDefault);
  reply.error(kWrongPassword);
}

void Service::hello(Client& client, Arguments words, ReplyWriter& reply) {
  const auto hello = parse_hello(words);
  if (!hello) return reply.error(hello.error());
  if (hello->login && log_in(words) == nullptr) {
    log_wrong_password(client, words[0], hello->login->first);
    return reply.error(kWrongPassword);
  }
  if (!is_authenticated(client))
    return reply.error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> "
        "<pass> option can be used to authenticate the client and select the RESP protocol version at the "
        "same time");
  if (hello->client_name) client.name = *hello->client_name;
  if (hello->version) client.is_resp3 = *hello->version == 3;
  std::string text;
  ReplyWriter answer(text, client.is_resp3);
  answer.map(7);
  answer.bulk("server");
  answer.bulk("redis");
  answer.bulk("version");
  answer.bulk(kRedisVersion);
  answer.bulk("proto");
  answer.integer(client.is_resp3 ? 3 : 2);
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

}  // namespace rdmc::kv
