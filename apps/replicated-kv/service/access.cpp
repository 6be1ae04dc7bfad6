// The part of Service that checks what users may do. A command in the order of events is checked where it is
// executed, against the users as all servers know them at this point. Other commands are checked against the
// users as this server knows them. Decision 105 gives the reasons.
#include <algorithm>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/limits.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

constexpr std::string_view kNotAuthenticated = "NOAUTH Authentication required.";

/// A client that is not authenticated cannot make the server keep more than this.
constexpr RequestParser::Limits kUnauthenticated{.bulk_bytes = 16 << 10, .words = 10};

std::string text_of_denial(Permission permission, std::string_view command, bool is_at_exec) {
  if (is_at_exec) {
    const std::string_view reason = permission == Permission::denied_command
                                        ? "no permission to execute the command or subcommand"
                                    : permission == Permission::denied_key
                                        ? "no permission to touch the specified keys"
                                        : "no permission to access one of the channels used as arguments";
    return "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. "
           "This command is no longer allowed for the following reason: " +
           std::string(reason);
  }
  if (permission == Permission::denied_command)
    return "NOPERM this user has no permissions to run the '" + std::string(command) + "' command";
  return "NOPERM this user has no permissions to access one of the " +
         std::string(permission == Permission::denied_key ? "keys" : "channels") + " used as arguments";
}

}  // namespace

/// Both the parameters and the client's user may have changed since the last request.
void Service::limit_parser(Client& client) const {
  client.parser.limits() = may_keep_much(client) ? parser_limits_ : kUnauthenticated;
}

/// A client that has acted as the default user without a password stays the default user when this user gets
/// a password.
void Service::use_default_user(Client& client) const {
  if (client.user == 0 && users_.is_open()) client.user = Users::kDefaultNumber;
}

/// Returns null if the client is not authenticated, or if its user was removed.
const User* Service::user_of(std::uint64_t number) const {
  if (number != 0) return users_.find(number);
  return users_.is_open() ? &users_.default_user() : nullptr;
}

std::optional<std::string> Service::denial(std::uint64_t number, Arguments words, Client* client,
                                           Occasion occasion) {
  if (users_.permit_everything() && number <= Users::kDefaultNumber) return std::nullopt;
  const User* const user = user_of(number);
  if (user == nullptr) return std::string(kNotAuthenticated);
  if (user->permits_everything()) return std::nullopt;
  const AclCommand* const command = acl_command_of(words);
  // A command that Redis does not have is for users who may do everything.
  std::string name = command == nullptr ? to_lower(words[0]) : std::string(command->name);
  Permission result = Permission::denied_command;
  std::size_t index = 0;
  if (command != nullptr) {
    CheckedRequest request(*command, words);
    result = user->check(request, index);
  }
  if (result == Permission::granted) return std::nullopt;
  if (client != nullptr) {
    const bool is_in_multi = occasion != Occasion::now || client->is_in_multi;
    acl_log_.add({.reason = result == Permission::denied_command ? AclLog::Reason::command
                            : result == Permission::denied_key   ? AclLog::Reason::key
                                                                 : AclLog::Reason::channel,
                  .context = is_in_multi ? AclLog::Context::multi : AclLog::Context::toplevel,
                  .object = result == Permission::denied_command ? name : std::string(words[index]),
                  .user = user->name(),
                  .time = now_.steady,
                  .client = describe(*client)},
                 static_cast<std::size_t>(settings_.number("acllog-max-len")));
  }
  return text_of_denial(result, name, occasion == Occasion::at_exec);
}

bool Service::may_read_all_keys(const Command& command, std::uint64_t number, Arguments words) const {
  if (users_.permit_everything() || (command.name != "sort" && command.name != "sort_ro")) return true;
  const User* const user = user_of(number);
  const AclCommand* const called = acl_command_of(words);
  if (user == nullptr || called == nullptr) return false;
  CheckedRequest request(*called, words);
  return user->check_with_all_keys(request);
}

/// Checks a request of a client before it takes its way. Returns true if the request has got an error.
bool Service::deny(Client& client, const Command& command, Arguments words) {
  if (is_alone()) use_default_user(client);
  // Another server asks this one without TLS. It says nothing that must be hidden.
  if (client.needs_tls && command.name != "rdmc.same-members") {
    reply_error(client, "ERR clients must use TLS here, on port " + settings_.at("tls-port"));
    client.is_closing = true;
    return true;
  }
  if (command.has(flag::kBeforeAuth)) return false;
  const auto refused = [&](const std::string& error) {
    if (client.is_in_multi && command.name == "exec") {
      leave_multi(client);
      unwatch(client);
      reply_error(client, "EXECABORT Transaction discarded because of: " + error);
      return true;
    }
    if (client.is_in_multi) client.has_multi_error = true;
    statistics_.rejected(command.name);
    reply_error(client, error);
    return true;
  };
  // The users are not known yet, either. What INFO then says is no secret.
  if (is_reading_disk_) return command.name != "info" && refused(std::string(kReadsDisk));
  if (!new_users_.empty()) return refused(std::string(kUsersWait));
  if (!is_authenticated(client)) return refused(std::string(kNotAuthenticated));
  const bool is_queued = client.is_in_multi && !command.has(flag::kInMulti);
  // These are checked where they are executed.
  if (!is_queued && (!command.has(flag::kClient) || command.name == "watch")) return false;
  const auto denied = denial(client.user, words, &client, is_queued ? Occasion::queued : Occasion::now);
  return denied && refused(*denied);
}

// -- Changes of users --

void Service::set_first_users(Users users) {
  users_ = std::move(users);
  own_users_.clear();
  users_.save(own_users_);
  if (is_alone()) users_.agree(next_random());
  first_users_ = acl_file_of(users_);
  users_have_changed(nullptr);
}

/// The users of a service are those that the first event of all brings.
void Service::put_first_users(Bytes& batch) const {
  put_varint(batch, static_cast<std::uint8_t>(EntryKind::first_users));
  put_varint(batch, 0);
  put_bytes(batch, {reinterpret_cast<const char*>(own_users_.data()), own_users_.size()});
}

void Service::replace_users(const Users& users) {
  if (!users_.are_agreed() || acl_file_of(users) == acl_file_of(users_)) return;
  users.save(new_users_);
  first_users_ = acl_file_of(users);
}

/// As soon as this server can, it makes all servers take the users of its command line.
void Service::propose_users() {
  if (new_users_.empty() || !status_.is_complete || std::exchange(has_proposed_users_, true)) return;
  Bytes& batch = batch_for(users_.id(), EntryKind::first_users);
  put_bytes(batch, {reinterpret_cast<const char*>(new_users_.data()), new_users_.size()});
}

/// `replaced` is the number of the users that these ones replace, or 0 if the service has none yet.
void Service::execute_first_users(std::string_view bytes, std::uint64_t replaced) {
  const std::uint64_t random = next_random();
  if (are_users_agreed() ? users_.id() != replaced : replaced != 0) return;
  VarintReader in(std::as_bytes(std::span(bytes)));
  Users users;
  if (!users.load(in)) return;
  if (replaced == 0) {
    users.agree(random);
    load_users(std::move(users));
  } else {
    // The users get new numbers, because entries with the old ones may follow.
    users_.replace(users);
    users_.agree(random);
    users_have_changed(nullptr);
  }
  new_users_.clear();
  // The events of a log say nothing about the command line of this run.
  if (order_ == nullptr) return;
  looks_at_own_users_at_ = std::nullopt;
  if (replaced != 0)
    news_.emplace_back(
        "the users of the data were replaced by those that a server has read from the file of --acl-file or "
        "--requirepass-file");
  if (acl_file_of(users_) != first_users_)
    warnings_.emplace_back(
        "the users of the service are those of another server's --acl-file or --requirepass-file. They "
        "differ from those that this server was started with");
}

/// Says in the log that the users of the command line do not count, because this server has got others with
/// the data. When all servers were off, the users of a server's file replace these soon. So it waits a
/// moment.
void Service::look_at_own_users() {
  if (!looks_at_own_users_at_ || now_.steady < *looks_at_own_users_at_) return;
  looks_at_own_users_at_ = std::nullopt;
  Users own;
  VarintReader in(own_users_);
  if (!own.load(in)) return;
  const std::string given = acl_line_of(own.default_user());
  if (options_.acl_file != nullptr
          ? acl_file_of(own) == acl_file_of(users_)
          : given == acl_line_of(Users().default_user()) || given == acl_line_of(users_.default_user()))
    return;
  warnings_.emplace_back(
      options_.acl_file != nullptr
          ? "the users of the service differ from those of this server's ACL file, which is not used. ACL "
            "LOAD at this server makes the service use the file, and ACL SAVE writes the users to the file"
      : users_.is_open()
          ? "the service has no password, and that of --requirepass-file is not used. CONFIG SET requirepass "
            "sets one"
          : "the password of the default user differs from that of --requirepass-file, which is not used. "
            "CONFIG SET requirepass changes the password");
}

/// Takes users that belong to a state of the service.
void Service::load_users(Users users) {
  const bool is_same_service = users.id() == users_.id() || !users_.are_agreed();
  users_ = std::move(users);
  has_former_users_ = false;
  // Everybody may act as a default user that needs no password.
  const auto stays = [&](std::uint64_t user) {
    return user == 0 || (user == Users::kDefaultNumber && users_.is_open());
  };
  if (!is_same_service)
    for (const auto& [number, client] : clients_)
      if (!stays(client->user)) end_client(*client, nullptr);
  users_have_changed(nullptr);
}

/// Ends the connections of clients whose user is gone, or whose user may not use their channels any more.
void Service::users_have_changed(const Client* issuer) {
  settings_.fix("requirepass", users_.default_user().needs_no_password() ? "" : "(hidden)");
  settings_.fix("acl-pubsub-default",
                users_.permits_new_users_all_channels() ? "allchannels" : "resetchannels");
  for (const auto& [number, client] : clients_) {
    const User* const user = user_of(client->user);
    if (user == nullptr && client->user != 0) {
      end_client(*client, issuer);
      continue;
    }
    if (pubsub_.count(number) == 0) continue;
    for (const auto kind : {PubSub::Kind::channel, PubSub::Kind::pattern})
      for (const std::string& name : pubsub_.names_of(number, kind))
        if (user == nullptr || !user->permits_channel(name, kind == PubSub::Kind::pattern))
          end_client(*client, issuer);
  }
}

/// The client that has given the command gets the reply before its connection ends.
void Service::end_client(Client& client, const Client* issuer) {
  client.is_closing = true;
  client.is_lost = client.is_lost || &client != issuer;
  list(client);
}

}  // namespace rdmc::kv
